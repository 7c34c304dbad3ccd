"""A matrix quantised in groups of inputs, as AWQ and GPTQ store it: w = (code - zero point) * scale."""

from dataclasses import dataclass, replace
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
    """All that is read of it is read by outputs, though the file holds it by inputs. Its own begin at `first`."""

    shape: Shape
    method: str
    parts: Parts
    source: TurnedCodes
    grouping: Grouping
    is_symmetric: bool = False  # all its zero points are in the middle
    first: int = 0

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
        """Offsets are products of scale and zero point, which float16 holds where that is a power of two."""
        if self.parts.scales.stored_format != "F16" or self.format != "q4":
            return self.parts.scales.stored_format == "F16"
        return _are_powers(self.source.zeros(0, 1)) and _are_powers(self._zeros(0, self.shape[0]))

    def check(self) -> None:
        """Its parts were checked when it was put together."""

    def as_matrix(self) -> Self:
        return self

    def cut(self, begin: int, end: int) -> Self:
        """Rows [begin, end)."""
        return replace(self, shape=(end - begin, self.shape[1]), first=self.first + begin)

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
        packed = self._with_scales(codes, 0, num_outputs)
        return _halved(packed) if self.has_half_scales else packed

    def rows(self, begin: int, end: int) -> NDArray[np.float32]:
        if self.format is None:
            return self._floats(begin, end)
        return self._with_scales(self._packed_codes(begin, end), begin, end).dequantize()

    def release(self) -> None:
        """Once the last rows are done: all lie in the same pages."""
        if self.first + self.shape[0] == self.parts.scales.shape[1]:
            self.parts.release()

    def _floats(self, begin: int, end: int) -> NDArray[np.float32]:
        groups = self.grouping.of_inputs().astype(np.intp, copy=False)
        values = self._codes(begin, end).astype(np.float32)
        values -= self._zeros(begin, end).astype(np.float32).take(groups, axis=1)
        values *= self._scales(begin, end).take(groups, axis=1)
        return values

    def _packed_codes(self, begin: int, end: int) -> NDArray[np.integer[Any]]:
        groups = self._codes(begin, end).reshape(end - begin, -1, GROUP)
        if self.format == "q8":
            return (groups ^ np.uint8(_MIDDLE)).view(np.int8)
        return groups[..., : GROUP // 2] | groups[..., GROUP // 2 :] << _HALF_BYTE

    def _with_scales(self, codes: NDArray[np.integer[Any]], begin: int, end: int) -> PackedTensor:
        """The packed tensor of outputs [begin, end), of which these are the codes."""
        shape, runs = (end - begin, self.shape[1]), self.grouping.of_runs()
        scales, zeros = self._scales(begin, end), self._zeros(begin, end)
        if self.format == "q8":
            if (zeros != _MIDDLE).any():
                raise CheckpointError(f"{self.where} has zero points other than {_MIDDLE}, though sym is true")
            return PackedTensor(shape, "q8", codes, scales[:, runs])
        return PackedTensor(shape, "q4", codes, scales[:, runs], (-zeros * scales)[:, runs])

    def _codes(self, begin: int, end: int) -> NDArray[np.uint8]:
        return self.source.codes(self.first + begin, self.first + end)

    def _zeros(self, begin: int, end: int) -> NDArray[np.int16]:
        return self.source.zeros(self.first + begin, self.first + end)

    def _scales(self, begin: int, end: int) -> NDArray[np.float32]:
        return self.parts.scale_values(self.first + begin, self.first + end, 1 << self.source.bits)


def _are_powers(numbers: NDArray[np.int16]) -> bool:
    return not (numbers & (numbers - 1)).any()


def _halved(packed: PackedTensor) -> PackedTensor:
    """With scales and offsets of 16 bits."""
    assert packed.scales is not None
    offsets = None if packed.offsets is None else packed.offsets.astype(np.float16)
    return replace(packed, scales=packed.scales.astype(np.float16), offsets=offsets)
