"""AWQ as AutoAWQ's "gemm" lays it out: 4-bit codes and zero points, of eight outputs in each word.

    qweight  int32 [in, out/8]          qzeros  int32 [in/g, out/8]         scales  [in/g, out]

Other versions lay it out in other ways, and are refused by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.weights.fields import Fields
from tailrace.weights.quantized.grouped import GroupedMatrix
from tailrace.weights.quantized.grouping import ONE_GROUP, Grouping, read_group_size
from tailrace.weights.quantized.parts import Parts, compose_modules
from tailrace.weights.safetensors import SafetensorsTensor
from tailrace.weights.stored import FileTensor

__all__ = ["AwqScheme", "read_awq"]

_BITS = 4
_IN_WORD = 8
_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # nibble k of a word, the lowest first, is output _ORDER[k] of its eight
_MIDDLE = 8  # zero, where there are no zero points
_VERSION = "gemm"


@dataclass(frozen=True, slots=True)
class AwqScheme:
    """Which modules were not converted needs no setting: they have a weight, and no codes."""

    group_size: int
    has_zero_points: bool

    def compose(self, tensors: Mapping[str, SafetensorsTensor]) -> dict[str, FileTensor]:
        return compose_modules(tensors, self._matrix)

    def _matrix(self, module: str, parts: Parts) -> GroupedMatrix:
        (num_inputs, _), (_, num_outputs) = parts.codes.shape, parts.scales.shape
        grouping = Grouping(num_inputs, self.group_size)
        if self.group_size != ONE_GROUP and num_inputs % self.group_size:
            raise CheckpointError(
                f"{parts.codes.where}: group_size {self.group_size} does not divide its {num_inputs} inputs"
            )
        if num_outputs % _IN_WORD:
            raise CheckpointError(f"{parts.scales.where}: {num_outputs} outputs do not fill words of {_IN_WORD}")
        num_words = num_outputs // _IN_WORD
        parts.codes.check_part(("I32",), (num_inputs, num_words))
        parts.check_scales(grouping.num_groups, num_outputs)
        if parts.zeros is not None:
            parts.zeros.check_part(("I32",), (grouping.num_groups, num_words))
        elif self.has_zero_points:
            raise parts.missing("qzeros")
        return GroupedMatrix((num_outputs, num_inputs), "AWQ", parts, AwqCodes(parts), grouping)


def read_awq(settings: Fields) -> AwqScheme:
    """Raises UnsupportedModel for another version or width."""
    version = settings.text("version", settings.text("format", settings.text("checkpoint_format", _VERSION)))
    if version.lower() != _VERSION:
        raise UnsupportedModel(
            f"{settings.source}: AWQ in version {version[:60]!r} is not supported; supported: {_VERSION}"
        )
    bits = settings.integer("bits", _BITS)
    if bits != _BITS:
        raise UnsupportedModel(f"{settings.source}: AWQ of {bits} bits is not supported; supported: {_BITS}")
    return AwqScheme(read_group_size(settings), settings.flag("zero_point", True))


@dataclass(frozen=True, slots=True)
class AwqCodes:
    """Codes and zero points of a matrix."""

    parts: Parts
    bits: int = _BITS

    def codes(self, begin: int, end: int) -> NDArray[np.uint8]:
        return _outputs(self.parts.codes.bits(), begin, end)

    def zeros(self, begin: int, end: int) -> NDArray[np.int16]:
        if self.parts.zeros is None:
            return np.full((end - begin, self.parts.scales.shape[0]), _MIDDLE, np.int16)
        return _outputs(self.parts.zeros.bits(), begin, end).astype(np.int16)


def _outputs(words: NDArray[Any], begin: int, end: int) -> NDArray[np.uint8]:
    """Outputs [begin, end) of `words` [rows, out/8], as [outputs, rows]."""
    first, last = begin // _IN_WORD, -(-end // _IN_WORD)
    of_words = np.ascontiguousarray(words[:, first:last].T)
    pairs = of_words.view(np.uint8).reshape(*of_words.shape, _IN_WORD // 2)
    numbers = np.empty((len(of_words), _IN_WORD, len(words)), np.uint8)
    for byte in range(_IN_WORD // 2):
        np.bitwise_and(pairs[..., byte], 15, out=numbers[:, _ORDER[2 * byte]])
        np.right_shift(pairs[..., byte], 4, out=numbers[:, _ORDER[2 * byte + 1]])
    skipped = begin - first * _IN_WORD
    return numbers.reshape(-1, len(words))[skipped : skipped + end - begin]
