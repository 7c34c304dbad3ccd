"""Matrices quantised in groups of inputs, written as AWQ and GPTQ store them: a bit at a time, and seen to be right."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.models.config import ModelConfig
from tailrace.weights.fields import Fields
from tailrace.weights.names import HUGGING_FACE_NAMES, file_names
from tailrace.weights.scheme import SETTINGS, read_scheme
from tailrace.weights.stored import FileTensor, Shape
from tests.unit.weights.deepseek_files import deepseek_settings, deepseek_values, hugging_face_tensors
from tests.unit.weights.model_files import hugging_face_settings, random_weights, write_stored
from tests.unit.weights.quantized.raw_files import Raw, raw, read_back

__all__ = [
    "Grouped",
    "Quantize",
    "Write",
    "awq_tensors",
    "compose",
    "gptq_tensors",
    "grouped",
    "named",
    "write_models",
]

Array = NDArray[Any]
_WORD_BITS = 32
_AWQ_NIBBLES = (0, 4, 1, 5, 2, 6, 3, 7)  # where AWQ puts each of eight outputs


@dataclass(frozen=True)
class Grouped:
    """Codes [in, out], zero points and scales [groups, out], and the group of each input."""

    codes: Array
    zeros: Array
    scales: Array
    groups: Array
    bits: int

    @property
    def values(self) -> NDArray[np.float32]:
        """[out, in]"""
        distances = self.codes - self.zeros[self.groups]
        return (distances.astype(np.float32) * self.scales[self.groups].astype(np.float32)).T.copy()


def grouped(
    num_outputs: int,
    num_inputs: int,
    *,
    bits: int = 4,
    group_size: int = 32,
    is_symmetric: bool = False,
    is_shuffled: bool = False,
    dtype: str = "float16",
    seed: int = 0,
) -> Grouped:
    generator = np.random.default_rng(seed)
    size = num_inputs if group_size == -1 else group_size
    num_groups = -(-num_inputs // size)
    middle = 1 << (bits - 1)
    zeros = generator.integers(1, 1 << bits, (num_groups, num_outputs))
    scales = generator.uniform(0.2, 1, (num_groups, num_outputs)) / (1 << bits)
    groups = np.arange(num_inputs) // size
    return Grouped(
        codes=generator.integers(0, 1 << bits, (num_inputs, num_outputs)),
        zeros=np.full_like(zeros, middle) if is_symmetric else zeros,
        scales=scales.astype(dtype),
        groups=generator.permutation(groups) if is_shuffled else groups,
        bits=bits,
    )


def gptq_tensors(matrix: Grouped, *, stored_less: int = 1) -> dict[str, Array]:
    """`stored_less`: by how much zero points are stored less than they are."""
    return {
        "qweight": _as_int32([_words(column, matrix.bits) for column in matrix.codes.T]).T.copy(),
        "qzeros": _as_int32([_words(row - stored_less, matrix.bits) for row in matrix.zeros]),
        "scales": matrix.scales,
        "g_idx": matrix.groups.astype(np.int32),
    }


def awq_tensors(matrix: Grouped) -> dict[str, Array]:
    return {
        "qweight": _as_int32([_words(_interleaved(row), 4) for row in matrix.codes]),
        "qzeros": _as_int32([_words(_interleaved(row), 4) for row in matrix.zeros]),
        "scales": matrix.scales,
    }


def _words(numbers: Iterable[int], bits: int) -> list[int]:
    """Number i is the bits from i * bits on, over the borders of words."""
    stream = "".join(f"{number:0{bits}b}"[::-1] for number in numbers)  # the lowest bit first
    return [int(stream[begin : begin + _WORD_BITS][::-1], 2) for begin in range(0, len(stream), _WORD_BITS)]


def _interleaved(numbers: Sequence[int] | Array) -> list[int]:
    """As AWQ orders each eight."""
    ordered = [0] * len(numbers)
    for index, number in enumerate(numbers):
        ordered[index // 8 * 8 + _AWQ_NIBBLES[index % 8]] = int(number)
    return ordered


def _as_int32(rows: Sequence[Sequence[int]]) -> Array:
    return np.array(rows, np.uint32).view(np.int32)


def compose(path: Path, settings: Mapping[str, Any], tensors: Mapping[str, Array | Raw]) -> dict[str, FileTensor]:
    """Tensors that are written to `path`, as the scheme of `settings` reads them."""
    stored = {name: array if isinstance(array, Raw) else raw(array) for name, array in tensors.items()}
    scheme = read_scheme(Fields("config.json", {SETTINGS: settings}))
    return scheme.compose(read_back(path, stored))


Write = Callable[[Grouped], Mapping[str, Array]]
Quantize = Callable[[str, Shape, int], Grouped | None]


def write_models(
    directory: Path,
    config: ModelConfig,
    *,
    settings: Mapping[str, Any] | None,
    write: Write,
    quantize: Quantize,
) -> tuple[Path, Path]:
    """A model of `config` twice: its matrices quantised, and the same values in float32.

    `quantize` is given a module, its shape, and a number to draw from; None: it stays as it is.
    """
    stored, own_settings = _stored(config)
    floats, codes = dict(stored), dict(stored)
    for seed, (name, array) in enumerate(stored.items()):
        module = name.removesuffix(".weight")
        matrix = quantize(module, array.shape, seed) if _is_converted(name, array) else None
        if matrix is not None:
            floats[name] = matrix.values
            del codes[name]
            codes |= named(module, write(matrix))
    write_stored(directory / "floats", own_settings, floats)
    write_stored(directory / "codes", own_settings | {SETTINGS: settings}, codes)
    return directory / "codes", directory / "floats"


def named(module: str, parts: Mapping[str, Array]) -> dict[str, Array]:
    return {f"{module}.{part}": array for part, array in parts.items()}


def _stored(config: ModelConfig) -> tuple[dict[str, Array], dict[str, Any]]:
    """Tensors by the names of files, and config.json."""
    if config.architecture.startswith("deepseek"):
        return dict(hugging_face_tensors(config, deepseek_values(config))), deepseek_settings(config)
    values = random_weights(config)
    names = file_names(HUGGING_FACE_NAMES, values)
    return {names[name]: array for name, array in values.items()}, hugging_face_settings(config)


def _is_converted(name: str, array: Array) -> bool:
    is_matrix = array.ndim == 2 and name.startswith(("model.layers.", "lm_head."))
    return is_matrix and not name.endswith((".mlp.gate.weight", "indexer.weights_proj.weight"))
