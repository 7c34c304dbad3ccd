"""How much there is to do in a step, counted: rows, the positions that they meet, and those that have to be read.

Each quantity is one number of a step. What an op costs is linear in them (`ops/costs.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.ops.api import StepInputs
from tailrace.ops.program import Rows

__all__ = ["AnyRows", "ChosenExperts", "MetPositions", "NumRows", "Quantity", "ReadPositions", "Sight", "StepWork"]

_Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StepWork:
    """A step without its tokens. `tables` [N, blocks] are of its N sequences, whose rows begin at `starts` [N].

    `chosen` are, of each mixture of the program, the experts that at least one row has chosen.
    """

    starts: _Counts
    counts: _Counts
    tables: NDArray[np.int32]
    block_tokens: int
    num_samples: int
    chosen: Sequence[int] = ()

    @classmethod
    def of(cls, step: StepInputs, block_tokens: int, chosen: Sequence[int] = ()) -> "StepWork":
        starts, counts = step.starts.astype(np.int64), np.diff(step.row_starts).astype(np.int64)
        num_blocks = -(-int((starts + counts).max(initial=0)) // block_tokens)
        tables = step.block_tables[step.slots, :num_blocks]
        return cls(starts, counts, tables, block_tokens, len(step.sample_rows), chosen)

    @property
    def ends(self) -> _Counts:
        return self.starts + self.counts

    def num_rows(self, rows: Rows) -> int:
        return int(self.counts.sum()) if rows == "tokens" else self.num_samples


@dataclass(frozen=True, slots=True)
class NumRows:
    """Rows of one kind."""

    rows: Rows

    def of(self, work: StepWork) -> float:
        return work.num_rows(self.rows)


@dataclass(frozen=True, slots=True)
class AnyRows:
    """1 where there are rows of a kind: what they need they need once, however many they are."""

    rows: Rows

    def of(self, work: StepWork) -> float:
        return float(work.num_rows(self.rows) > 0)


@dataclass(frozen=True, slots=True)
class ChosenExperts:
    """Experts of one mixture that at least one row has chosen. `mixture` counts those of the program."""

    mixture: int

    def of(self, work: StepWork) -> float:
        return work.chosen[self.mixture]


@dataclass(frozen=True, slots=True)
class Sight:
    """Which positions of its sequence, of those up to its own, a row meets.

    All; or the last `window`; or `num_selected` of them. A row that has no more than `num_free` meets none.
    """

    window: int | None = None
    num_selected: int | None = None
    num_free: int = 0

    def met(self, work: StepWork) -> _Counts:
        """By the rows of each sequence, together."""
        num_without = np.clip(self.num_free - work.starts, 0, work.counts)
        return self._met_by_first(work.starts, work.counts) - self._met_by_first(work.starts, num_without)

    def _met_by_first(self, starts: _Counts, counts: _Counts) -> _Counts:
        """By the first rows of each sequence: 1 + start, 2 + start, ..., but none more than `most`."""
        most = self.window or self.num_selected or np.iinfo(np.int32).max
        num_below = np.clip(most - starts, 0, counts)
        met: _Counts = num_below * starts + num_below * (num_below + 1) // 2 + (counts - num_below) * most
        return met


@dataclass(frozen=True, slots=True)
class MetPositions:
    """Pairs of a row and a position that it meets."""

    sight: Sight

    def of(self, work: StepWork) -> float:
        return float(self.sight.met(work).sum())


@dataclass(frozen=True, slots=True)
class ReadPositions:
    """Positions that some row meets: each once, however many rows meet it, and sequences whose blocks it lies in.

    Which positions are selected nobody tells: of a sequence that selects, it is what its rows select together, but no
    more than it has.
    """

    sight: Sight

    def of(self, work: StepWork) -> float:
        sight, ends = self.sight, work.ends
        firsts = np.zeros_like(ends) if sight.window is None else np.maximum(work.starts - sight.window + 1, 0)
        selects = ends > (sight.num_selected or np.iinfo(np.int32).max)
        reads_all = (work.counts > 0) & (ends > sight.num_free) & ~selects
        selected = np.minimum(sight.met(work), ends)[selects].sum()
        return _distinct(work, firsts[reads_all], ends[reads_all], work.tables[reads_all]) + float(selected)


def _distinct(work: StepWork, firsts: _Counts, ends: _Counts, tables: NDArray[np.int32]) -> float:
    """Positions [first, end) of some sequences, those in shared blocks once."""
    begins = np.arange(tables.shape[1]) * work.block_tokens
    low = np.clip(firsts[:, None] - begins, 0, work.block_tokens)
    high = np.clip(ends[:, None] - begins, 0, work.block_tokens)
    is_read = high > low
    blocks, low, high = tables[is_read], low[is_read], high[is_read]
    if len(blocks) == 0:
        return 0.0
    order = np.argsort(blocks)
    groups = np.flatnonzero(np.diff(blocks[order], prepend=-1))  # where another block begins
    return float((np.maximum.reduceat(high[order], groups) - np.minimum.reduceat(low[order], groups)).sum())


Quantity = NumRows | AnyRows | ChosenExperts | MetPositions | ReadPositions
