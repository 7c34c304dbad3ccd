"""The pack-quantized layout of compressed-tensors: codes and zero points as dense bit streams of int32 words.

    weight_packed      int32 [out, ceil(in * bits / 32)]   along the inputs
    weight_scale       float16 [out, in / 32]
    weight_zero_point  int32 [ceil(out * bits / 32), in / 32]   along the outputs; where codes are not symmetric
    weight_shape       int64 [2]                           out, in

W = (q - zero) * scale. What is stored is q + 2^(bits - 1), so that our codes 0..15 stand as they are.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import EngineError
from tailrace.ops.packed import GROUP, PackedTensor
from tailrace.quantizing.grid import Grid
from tailrace.weights.stored import Shape

__all__ = ["Piece", "arrays", "pieces", "quantization_config"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A tensor of a safetensors file that is part of a matrix."""

    suffix: str
    dtype: str
    shape: Shape


def pieces(shape: Shape, grid: Grid) -> Iterator[Piece]:
    """What a matrix of this shape is stored as."""
    num_rows, num_inputs = shape
    groups = num_inputs // GROUP
    yield Piece("weight_packed", "I32", (num_rows, _num_words(num_inputs, grid.bits)))
    yield Piece("weight_scale", "F16", (num_rows, groups))
    if grid.has_integer_zero:
        yield Piece("weight_zero_point", "I32", (_num_words(num_rows, grid.bits), groups))
    yield Piece("weight_shape", "I64", (2,))


def arrays(tensor: PackedTensor, grid: Grid) -> Iterator[NDArray[Any]]:
    """The contents of the pieces, in their order."""
    if tensor.scales is None:
        raise EngineError("a matrix without scales is not quantised")
    yield _words(_numbers(tensor).reshape(tensor.shape), grid.bits)
    yield tensor.scales.astype("<f2")
    if grid.has_integer_zero:
        yield np.ascontiguousarray(_words(_zeros(tensor).T, grid.bits).T)
    yield np.array(tensor.shape, "<i8")


def quantization_config(grid: Grid, ignored: list[str]) -> dict[str, Any]:
    """How config.json says it."""
    weights: dict[str, Any] = {
        "num_bits": grid.bits,
        "type": "int",
        "symmetric": not grid.has_integer_zero,
        "strategy": "group",
        "group_size": GROUP,
        "block_structure": None,
        "dynamic": False,
        "actorder": None,
        "observer": "minmax",
        "observer_kwargs": {},
    }
    group = {"targets": ["Linear"], "weights": weights, "input_activations": None, "output_activations": None}
    return {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "quantization_status": "compressed",
        "config_groups": {"group_0": group},
        "ignore": ignored,
        "kv_cache_scheme": None,
        "global_compression_ratio": None,
    }


def _numbers(tensor: PackedTensor) -> NDArray[np.uint8]:
    """Of each input the number that is stored, without sign."""
    if tensor.format == "q8":
        return (tensor.values.astype(np.int16) + 128).astype(np.uint8)
    return np.concatenate([tensor.values & 15, tensor.values >> 4], axis=-1)


def _zeros(tensor: PackedTensor) -> NDArray[np.uint8]:
    """The code that stands for zero, [out, in / 32]."""
    if tensor.offsets is None or tensor.scales is None:
        raise EngineError("a matrix without offsets has no zero points")
    scales = np.where(tensor.scales == 0, 1, tensor.scales).astype(np.float32)
    zeros: NDArray[np.uint8] = np.rint(-tensor.offsets / scales).astype(np.uint8)
    return zeros


def _num_words(count: int, bits: int) -> int:
    return -(-count * bits // 32)


def _words(numbers: NDArray[np.uint8], bits: int) -> NDArray[np.int32]:
    """Numbers [rows, n] as words [rows, ceil(n * bits / 32)], the first in the lowest bits; the rest is zero."""
    rows, count = numbers.shape
    padded = np.zeros((rows, _num_words(count, bits) * 32 // bits), np.uint8)
    padded[:, :count] = numbers
    octets = padded if bits == 8 else padded[:, ::2] | (padded[:, 1::2] << 4)
    return np.ascontiguousarray(octets).view("<i4")
