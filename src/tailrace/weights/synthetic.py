"""Random weights of a model of any size, drawn straight in packed form: no file, no float32 in between.

They keep activations near one and send tokens to all experts about evenly. Like real ones they have a few loud
channels behind the norms of layers, which 8-bit activations pay for. They mean nothing: only what they cost is real.
"""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import sqrt
from threading import Lock
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tailrace.models.config import ModelConfig
from tailrace.models.registry import build_program
from tailrace.ops.packed import GROUP, PackedTensor, WeightFormat, from_float32
from tailrace.ops.source import WeightForm
from tailrace.weights.names import tensor_class
from tailrace.weights.precision import Precision, precision_class

__all__ = ["SyntheticFormat", "SyntheticTensors", "synthetic_format"]

SyntheticFormat = Literal["bf16", "int8", "int4"]

_LOUD_NORMS = frozenset({"attention_norm", "mlp_norm", "norm"})
_LOUD_EVERY, _LOUDNESS = 3 * GROUP, 12.0
_GAIN = 0.6  # of a matrix: inputs behind a loud norm have a root mean square of 1.6

_SCALES = np.linspace(0.75, 1.25, 128)
_SIGNED_SCALES = np.concatenate([_SCALES, -_SCALES])  # both signs: 16 codes around -0.5 would add up to a bias
_Q4_CENTRE = 8
_Q4_DEVIATION = sqrt(21.5 * np.square(_SCALES).mean())  # of codes 0..15 less 8
_Q8_DEVIATION = sqrt(127 * 128 / 3 * np.square(_SCALES).mean())
_BF16_DEVIATION = sqrt(7 / 3)  # of numbers in 1..2


def synthetic_format(name: str, shape: tuple[int, ...], wanted: SyntheticFormat) -> WeightFormat:
    """How a tensor is packed: as `--quantize` would pack that of a file."""
    width = Precision.parse("int8" if wanted == "bf16" else wanted).width(precision_class(name))
    if len(shape) == 1 or width == "float":
        return "f32"
    if shape[1] % GROUP or wanted == "bf16":
        return "bf16"
    return "q8" if width == "int8" else "q4"


@dataclass(frozen=True)
class SyntheticTensors(Mapping[str, PackedTensor]):
    """Our names -> random tensors: drawn when asked for, not kept, and always the same for one seed."""

    config: ModelConfig
    wanted: SyntheticFormat
    seed: int
    _drawn: dict[str, PackedTensor] = field(default_factory=dict, repr=False)
    _drawing: Lock = field(default_factory=Lock, repr=False)

    def __getitem__(self, name: str) -> PackedTensor:
        shape = self.shapes[name]
        bits = np.random.SFC64(np.random.SeedSequence([self.seed, zlib.crc32(name.encode())]))
        match self.format_of(name):
            case "q4":
                return _q4(bits, shape, _deviation(name, shape))
            case "q8":
                return _q8(bits, shape, _deviation(name, shape))
            case "bf16":
                return _bf16(bits, shape, _deviation(name, shape))
            case _:
                return from_float32(_float32(np.random.Generator(bits), name, shape))

    def form(self, name: str) -> WeightForm:
        """How it is packed, without drawing it."""
        return WeightForm(self.shapes[name], self.format_of(name))

    def part(self, name: str, begin: int, end: int) -> PackedTensor:
        """Rows of a tensor that is drawn as a whole, and kept until another is."""
        with self._drawing:
            if name not in self._drawn:
                self._drawn.clear()
                self._drawn[name] = self[name]
            tensor = self._drawn[name]
        return tensor if len(tensor.shape) == 1 else tensor.cut(begin, end)

    def release(self, name: str, begin: int, end: int) -> None:
        """It is of no file."""

    def format_of(self, name: str) -> WeightFormat:
        """How it is packed, without drawing it."""
        return synthetic_format(name, self.shapes[name], self.wanted)

    def __contains__(self, name: object) -> bool:
        """Without drawing it, as a mapping would that is not told how."""
        return name in self.shapes

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)

    @cached_property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {name: weight.shape for name, weight in build_program(self.config).weights.items()}


def _deviation(name: str, shape: tuple[int, ...]) -> float:
    """Of a matrix's values: rows of the embedding are what activations begin with, the rest is multiplied with them."""
    return 1.0 if name == "embed" else _GAIN / sqrt(shape[1])


def _bytes(bits: np.random.SFC64, count: int) -> NDArray[np.uint8]:
    words: NDArray[np.uint64] = bits.random_raw(-(-count // 8))
    return words.view(np.uint8)[:count]


def _q4(bits: np.random.SFC64, shape: tuple[int, ...], deviation: float) -> PackedTensor:
    groups = (shape[0], shape[1] // GROUP)
    codes = _bytes(bits, shape[0] * shape[1] // 2).reshape(*groups, GROUP // 2)
    scales = (deviation / _Q4_DEVIATION * _SIGNED_SCALES).astype(np.float16)
    drawn = _bytes(bits, groups[0] * groups[1]).reshape(groups)
    return PackedTensor(shape, "q4", codes, scales[drawn], (-_Q4_CENTRE * scales)[drawn])


def _q8(bits: np.random.SFC64, shape: tuple[int, ...], deviation: float) -> PackedTensor:
    groups = (shape[0], shape[1] // GROUP)
    codes = _bytes(bits, shape[0] * shape[1]).view(np.int8).reshape(*groups, GROUP)
    scales = (deviation / _Q8_DEVIATION * _SIGNED_SCALES).astype(np.float16)
    drawn = _bytes(bits, groups[0] * groups[1]).reshape(groups)
    return PackedTensor(shape, "q8", np.maximum(codes, -127, out=codes), scales[drawn])


def _bf16(bits: np.random.SFC64, shape: tuple[int, ...], deviation: float) -> PackedTensor:
    """Sign and mantissa are random, the exponent is the one that comes nearest."""
    values = _bytes(bits, 2 * shape[0] * shape[1]).view(np.uint16).reshape(shape)
    exponent = round(np.log2(deviation / _BF16_DEVIATION)) + 127
    values &= np.uint16(0x807F)
    values |= np.uint16(exponent << 7)
    return PackedTensor(shape, "bf16", values)


def _float32(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    values: NDArray[Any] = rng.standard_normal(shape, np.float32)
    if len(shape) == 2:
        return values * np.float32(_deviation(name, shape))
    values *= np.float32(0.1)
    if name.endswith("norm"):
        values += np.float32(1)
    if tensor_class(name) in _LOUD_NORMS:
        values[::_LOUD_EVERY] = _LOUDNESS
    return values
