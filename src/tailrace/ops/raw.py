"""A matrix as it lies in a file, where native code reads it: bytes, and how they are to be taken."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLOCK_FORMS", "BlockForm", "FloatForm", "RawForm", "RawMatrix", "RawParts", "ScaleGrid", "cut_parts"]

# By the names of csrc/convert/stored.h; those of GGUF are its own.
FloatForm = Literal["f32", "f16", "bf16"]
BlockForm = Literal["Q8_0", "Q5_0", "Q5_1", "IQ4_NL", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]
RawForm = FloatForm | BlockForm | Literal["e4m3"]
BLOCK_FORMS: Mapping[str, BlockForm] = {name: name for name in get_args(BlockForm)}


@dataclass(frozen=True, slots=True)
class ScaleGrid:
    """What codes are multiplied with: one float32 for each block of values, the last of a row or column ragged."""

    scales: NDArray[np.float32]  # [block rows, block columns]
    block_rows: int
    block_cols: int  # a multiple of 32, or all columns
    first_row: int = 0  # where, counted from the top of the grid, the rows at hand begin


@dataclass(frozen=True, slots=True)
class RawMatrix:
    """Rows of one matrix. `grid` goes with e4m3; all other forms have their scales among the bytes."""

    form: RawForm
    num_cols: int
    data: NDArray[np.uint8]  # [rows, bytes of a row], a view into a mapped file
    grid: ScaleGrid | None = None

    @property
    def num_rows(self) -> int:
        return len(self.data)

    @classmethod
    def of_floats(cls, form: FloatForm, values: NDArray[Any]) -> Self:
        """A matrix of f32, f16 or bf16 (as uint16)."""
        return cls(form, values.shape[1], values.view(np.uint8))

    def rows(self, begin: int, end: int) -> Self:
        grid = self.grid and replace(self.grid, first_row=self.grid.first_row + begin)
        return replace(self, data=self.data[begin:end], grid=grid)


RawParts = Sequence[RawMatrix]  # one below the other


def cut_parts(parts: RawParts, begin: int, end: int) -> RawParts:
    """Rows [begin, end) of what `parts` are together."""
    top, found = 0, []
    for part in parts:
        first, last = max(begin - top, 0), min(end - top, part.num_rows)
        if first < last:
            found.append(part.rows(first, last))
        top += part.num_rows
    return found
