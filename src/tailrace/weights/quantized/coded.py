"""A matrix of a file that stands in it as codes and scales."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CheckpointError
from tailrace.ops.packed import GROUP, PackedTensor, WeightFormat, from_float32
from tailrace.ops.raw import RawMatrix, RawParts, ScaleGrid
from tailrace.weights.quantized.codes import Codes, Float8s
from tailrace.weights.quantized.scales import PackedZeros, Scales, Zeros
from tailrace.weights.safetensors import SafetensorsTensor

__all__ = ["CodedTensor"]

_NIBBLE = 15


@dataclass(frozen=True, slots=True)
class CodedTensor:
    """Values are (code - zero) * scale, computed in float32. What it is made of fits together: that is checked before.

    `unit` is what all codes have in common, a power of two. `order` holds the group of each input, where groups are no
    neighbours. Its rows are those of the file from `first` on.
    """

    shape: tuple[int, int]
    codes: Codes
    scales: Scales
    zeros: Zeros | PackedZeros | None = None
    order: SafetensorsTensor | None = None
    unit: float = 1.0
    first: int = 0

    @property
    def stored_format(self) -> str:
        return self.codes.word

    @property
    def where(self) -> str:
        return self.codes.stored.where

    @property
    def format(self) -> WeightFormat | None:
        if self.codes.span is None or self.order is not None or not self._fills_groups():
            return None
        low, high = self.codes.span
        if high - low <= _NIBBLE and self.scales.has_few_bits:
            return "q4"
        # Without zeros even the least code is one of int8; differences of two codes may take a bit more.
        return "q8" if self.zeros is None or high - low <= np.iinfo(np.int8).max else None

    @property
    def has_half_scales(self) -> bool:
        """Offsets are scales times what stands for zero: only a power of two leaves them as few bits as they have."""
        return self.zeros is None and self.unit == 1.0 and self.scales.are_halves

    def check(self) -> None:
        """Whoever made it has checked."""

    def as_matrix(self) -> Self:
        return self

    def cut(self, begin: int, end: int) -> Self:
        """Rows [begin, end)."""
        return replace(self, shape=(end - begin, self.shape[1]), first=self.first + begin)

    def packed(self) -> PackedTensor:
        match self.format:
            case "q4":
                return self._q4()
            case "q8":
                return self._q8()
            case _:
                return from_float32(self.rows(0, self.shape[0]))

    def rows(self, begin: int, end: int) -> NDArray[np.float32]:
        """Float32 values of rows [begin, end)."""
        part = self.cut(begin, end)
        values: NDArray[np.float32] = part._differences().astype(np.float32, copy=False)
        values *= part._spread(part._multipliers())
        return values

    def raw(self) -> RawParts | None:
        is_plain = isinstance(self.codes, Float8s) and self.zeros is None and self.order is None
        if not is_plain or not self._fills_groups():
            return None
        (begin, end), grid = self._span, self.scales.grid
        scales = self.scales.of_blocks(begin, end) * np.float32(self.unit)
        scale_grid = ScaleGrid(scales, grid.height, grid.width, first_row=begin % grid.height)
        return [RawMatrix("e4m3", self.shape[1], self.codes.stored.bits()[begin:end], scale_grid)]

    def release(self) -> None:
        """The last rows give back what is shared, too."""
        _, end = self._span
        self.codes.stored.cut(*self._span).release()
        if end < self.codes.stored.shape[0]:
            return
        self.scales.release()
        if self.zeros is not None:
            self.zeros.release()

    @property
    def _span(self) -> tuple[int, int]:
        """The rows of the file."""
        return self.first, self.first + self.shape[0]

    def _fills_groups(self) -> bool:
        columns, width = self.shape[1], self.scales.grid.width
        return columns % GROUP == 0 and (width % GROUP == 0 or width >= columns)

    def _multipliers(self) -> NDArray[np.float32]:
        return self.scales.of_rows(*self._span) * np.float32(self.unit)

    def _differences(self) -> NDArray[Any]:
        codes = self.codes.of_rows(*self._span)
        return codes if self.zeros is None else codes - self._spread(self.zeros.of_rows(*self._span))

    def _spread(self, parts: NDArray[Any]) -> NDArray[Any]:
        """Of each group its part, for every input: [rows, columns] of [rows, groups]."""
        if self.order is not None:
            return parts[:, self._groups(self.order)]
        if parts.shape[1] == 1:
            return parts
        return np.repeat(parts, self.scales.grid.width, axis=1)[:, : self.shape[1]]

    def _groups(self, order: SafetensorsTensor) -> NDArray[Any]:
        groups, count = order.bits(), self.scales.grid.columns
        if (groups < 0).any() or (groups >= count).any():
            raise CheckpointError(f"{order.where} names groups beyond the {count} that have scales")
        return groups

    def _q8(self) -> PackedTensor:
        codes = self._differences().astype(np.int8, copy=False).reshape(self.shape[0], -1, GROUP)
        return PackedTensor(self.shape, "q8", codes, self._by_group(self._multipliers()))

    def _q4(self) -> PackedTensor:
        """Codes count from the least, which is what lies at the offset."""
        low, _ = self.codes.span or (0, 0)
        nibbles = (self.codes.of_rows(*self._span) - np.int8(low)).view(np.uint8).reshape(self.shape[0], -1, GROUP)
        front, back = np.split(nibbles, 2, axis=-1)
        scales = self._multipliers()
        zeros = np.float32(0) if self.zeros is None else self.zeros.of_rows(*self._span).astype(np.float32)
        offsets = scales * (np.float32(low) - zeros)
        return PackedTensor(self.shape, "q4", front | (back << 4), self._by_group(scales), self._by_group(offsets))

    def _by_group(self, parts: NDArray[np.float32]) -> NDArray[np.float32]:
        """A part for each group of 32 inputs."""
        groups = self.shape[1] // GROUP
        repeats = groups if parts.shape[1] == 1 else self.scales.grid.width // GROUP
        return np.ascontiguousarray(np.repeat(parts, repeats, axis=1)[:, :groups])
