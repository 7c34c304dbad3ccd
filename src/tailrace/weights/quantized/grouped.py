"""A matrix quantised in groups of inputs, as AWQ and GPTQ store it: w = (code - zero point) * scale."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CheckpointError
from tailrace.ops.packed import GROUP, PackedTensor, WeightFormat
from tailrace.weights.quantized.grouping import Grouping
from tailrace.weights.quantized.parts import Parts
from tailrace.weights.stored import Shape

__all__ = ["GroupedMatrix", "TurnedCodes"]

_BLOCK_VALUES = 1 << 20  # decoded at once: what is made on the way stays small beside the result
_HALF_BYTE = 4
_MIDDLE = 128  # the zero point of symmetric 8-bit codes, which makes int8 of them


class TurnedCodes(Protocol):
    """How a format lays codes and zero points into words: inputs, or groups of them, by outputs."""

    @property
    def bits(self) -> int: ...

    def codes(self, begin: int, end: int) -> NDArray[np.uint8]:
        """Of outputs [begin, end): [outputs, inputs]."""
        ...

    def zeros(self, begin: int, end: int) -> NDArray[np.int16]:
        """What stands for zero, [outputs, groups]."""
        ...


@dataclass(frozen=True, slots=True)
class GroupedMatrix:
    """All that is read of it is read by outputs, though the file holds it by inputs."""

    shape: Shape
    method: str
    parts: Parts
    source: TurnedCodes
    grouping: Grouping
    is_symmetric: bool = False  # all its zero points are in the middle

    @property
    def stored_format(self) -> str:
        return f"{self.method} {self.source.bits}-bit"

    @property
    def where(self) -> str:
        return self.parts.codes.where

    @property
    def format(self) -> WeightFormat | None:
        """Reordered inputs share their scales with others than their neighbours: no packed format holds that."""
        if not self.grouping.has_runs:
            return None
        if self.source.bits <= _HALF_BYTE:
            return "q4"
        return "q8" if self.is_symmetric else None

    @property
    def has_half_scales(self) -> bool:
        """Offsets are scales times zero points: only a power of two leaves them as few bits as they have."""
        return self.is_symmetric and self.parts.scales.stored_format == "F16"

    def check(self) -> None:
        """Its parts were checked when it was put together."""

    def as_matrix(self) -> Self:
        return self

    def packed(self) -> PackedTensor:
        num_outputs, num_inputs = self.shape
        step = max(GROUP, _BLOCK_VALUES // max(1, num_inputs) // GROUP * GROUP)
        blocks = [(begin, min(begin + step, num_outputs)) for begin in range(0, num_outputs, step)]
        if self.format is None:
            values = np.empty(self.shape, np.float32)
            for begin, end in blocks:
                values[begin:end] = self._floats(begin, end)
            return PackedTensor(self.shape, "f32", values)
        dtype, width = (np.uint8, GROUP // 2) if self.format == "q4" else (np.int8, GROUP)
        codes = np.empty((num_outputs, num_inputs // GROUP, width), dtype)
        for begin, end in blocks:
            codes[begin:end] = self._packed_codes(begin, end)
        return self._with_scales(codes, 0, num_outputs)

    def rows(self, begin: int, end: int) -> NDArray[np.float32]:
        if self.format is None:
            return self._floats(begin, end)
        return self._with_scales(self._packed_codes(begin, end), begin, end).dequantize()

    def release(self) -> None:
        self.parts.release()

    def _floats(self, begin: int, end: int) -> NDArray[np.float32]:
        groups = self.grouping.of_inputs()
        values = self.source.codes(begin, end).astype(np.float32)
        values -= self.source.zeros(begin, end)[:, groups]
        values *= self._scales(begin, end)[:, groups]
        return values

    def _packed_codes(self, begin: int, end: int) -> NDArray[np.integer[Any]]:
        groups = self.source.codes(begin, end).reshape(end - begin, -1, GROUP)
        if self.format == "q8":
            return (groups ^ np.uint8(_MIDDLE)).view(np.int8)
        return groups[..., : GROUP // 2] | groups[..., GROUP // 2 :] << _HALF_BYTE

    def _with_scales(self, codes: NDArray[np.integer[Any]], begin: int, end: int) -> PackedTensor:
        """The packed tensor of outputs [begin, end), of which these are the codes."""
        shape, runs = (end - begin, self.shape[1]), self.grouping.of_runs()
        scales, zeros = self._scales(begin, end), self.source.zeros(begin, end)
        if self.format == "q8":
            if (zeros != _MIDDLE).any():
                raise CheckpointError(f"{self.where} has zero points other than {_MIDDLE}, though sym is true")
            return PackedTensor(shape, "q8", codes, _narrowed(scales)[0][:, runs])
        narrow_scales, offsets = _narrowed(scales, -zeros * scales)
        return PackedTensor(shape, "q4", codes, narrow_scales[:, runs], offsets[:, runs])

    def _scales(self, begin: int, end: int) -> NDArray[np.float32]:
        return self.parts.scale_values(begin, end, 1 << self.source.bits)


def _narrowed(*parts: NDArray[np.float32]) -> Sequence[NDArray[np.floating[Any]]]:
    """All in float16, if that keeps every value of every one."""
    with np.errstate(over="ignore"):
        halves = [part.astype(np.float16) for part in parts]
    return halves if all(map(np.array_equal, halves, parts)) else parts
