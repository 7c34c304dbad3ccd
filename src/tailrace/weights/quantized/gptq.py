"""GPTQ: codes of 2, 3, 4 or 8 bits, packed without gaps along the inputs, zero points along the outputs.

qweight  int32 [in * bits/32, out]      qzeros  int32 [groups, out * bits/32]
scales   [groups, out]                  g_idx   int32 [in], the group of each input
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CheckpointError
from tailrace.weights.fields import Fields
from tailrace.weights.quantized.bit_stream import stream_bytes, unpack
from tailrace.weights.quantized.gptq_settings import GptqSettings, ModuleSettings
from tailrace.weights.quantized.grouped import GroupedMatrix
from tailrace.weights.quantized.grouping import Grouping
from tailrace.weights.quantized.parts import Parts, compose_modules
from tailrace.weights.safetensors import SafetensorsTensor
from tailrace.weights.stored import FileTensor

__all__ = ["GptqScheme", "read_gptq"]

_WORD_BYTES = 4
_INDEX_DTYPES = ("I32", "I64")


@dataclass(frozen=True, slots=True)
class GptqScheme:
    """Matrices of several tensors, as the settings say of each."""

    settings: GptqSettings

    def compose(self, tensors: Mapping[str, SafetensorsTensor]) -> dict[str, FileTensor]:
        return compose_modules(tensors, self._matrix)

    def _matrix(self, module: str, parts: Parts) -> GroupedMatrix:
        how = self.settings.of_module(module)
        if how is None:
            raise CheckpointError(f"{parts.codes.where} is quantised, though {self.settings.source} skips its module")
        if parts.zeros is None:
            raise parts.missing("qzeros")
        num_outputs = parts.scales.shape[1]
        grouping = _grouping(parts, how)
        parts.codes.check_part(("I32",), (_num_words(grouping.num_inputs, how.bits), num_outputs))
        parts.zeros.check_part(("I32",), (grouping.num_groups, _num_words(num_outputs, how.bits)))
        parts.check_scales(grouping.num_groups, num_outputs)
        is_second = self.settings.is_second
        source = GptqCodes(parts, parts.zeros, how.bits, grouping.num_inputs, how.is_symmetric, is_second)
        shape = (num_outputs, grouping.num_inputs)
        return GroupedMatrix(shape, "GPTQ", parts, source, grouping, how.is_symmetric)


def read_gptq(settings: Fields) -> GptqScheme:
    """Raises UnsupportedModel for another format or width."""
    return GptqScheme(GptqSettings.read(settings))


def _grouping(parts: Parts, how: ModuleSettings) -> Grouping:
    """Without the groups of inputs their number is that of the codes, which may be more than the matrix has."""
    if parts.groups is None:
        if how.is_reordered:
            raise parts.missing("g_idx")
        return Grouping(parts.codes.shape[0] * 8 * _WORD_BYTES // how.bits, how.group_size)
    num_inputs = parts.groups.shape[0] if parts.groups.shape else 0
    parts.groups.check_part(_INDEX_DTYPES, (num_inputs,))
    return Grouping(num_inputs, how.group_size, parts.groups, how.is_reordered)


def _num_words(count: int, bits: int) -> int:
    return stream_bytes(count, bits, _WORD_BYTES) // _WORD_BYTES


@dataclass(frozen=True)
class GptqCodes:
    """Codes and zero points of a matrix."""

    parts: Parts
    stored_zeros: SafetensorsTensor
    bits: int
    num_inputs: int
    is_symmetric: bool
    is_second: bool

    def codes(self, begin: int, end: int) -> NDArray[np.uint8]:
        of_outputs = np.ascontiguousarray(self.parts.codes.bits()[:, begin:end].T)
        return unpack(of_outputs.view(np.uint8), self.bits, self.num_inputs)

    def zeros(self, begin: int, end: int) -> NDArray[np.int16]:
        zeros = _numbers(self.stored_zeros.bits(), self.bits, begin, end).T.astype(np.int16)
        return zeros if self.is_second or self._stores_the_middle else zeros + np.int16(1)

    @cached_property
    def _stores_the_middle(self) -> bool:
        """Some writers say the first format of symmetric codes, and store zero points as the second does."""
        num_outputs, middle = self.parts.scales.shape[1], 1 << (self.bits - 1)
        return self.is_symmetric and bool(
            (_numbers(self.stored_zeros.bits(), self.bits, 0, num_outputs) == middle).all()
        )


def _numbers(words: NDArray[Any], bits: int, begin: int, end: int) -> NDArray[np.uint8]:
    """Numbers [begin, end) of each row of `words`: of so many bytes as there are bits, each eight are cut out."""
    first, last = begin // 8, -(-end // 8)
    stream = words.view(np.uint8)[:, first * bits : last * bits]
    return unpack(stream, bits, end - 8 * first)[:, begin - 8 * first :]
