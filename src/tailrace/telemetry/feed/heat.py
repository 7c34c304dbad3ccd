"""How much of users' prompts each level gave, in cells of five minutes: of two hours, whether or not anybody looks."""

from collections import deque

import msgspec

from tailrace.records import RequestRecord

__all__ = ["CELL_S", "MAX_CELLS", "HeatCell", "HitHeat"]

CELL_S = 300
MAX_CELLS = 24


class HeatCell(msgspec.Struct, array_like=True):
    """Requests that ended in five minutes: prompt tokens in all, and those that needed no computing, by level."""

    number: int  # of the cell, by the machine's monotonic clock
    num_prompt_tokens: int = 0
    found: dict[str, int] = msgspec.field(default_factory=dict)


class HitHeat:
    """Written by the engine's thread."""

    def __init__(self) -> None:
        self._cells: deque[HeatCell] = deque(maxlen=MAX_CELLS)

    def record(self, request: RequestRecord) -> None:
        """Count a request that has ended; not one that was computed ahead, nor one that never started."""
        prefix = request.prefix
        if request.is_warmup or prefix is None:
            return
        cell = self._cell_at(int(request.finished_s // CELL_S))
        cell.num_prompt_tokens += request.num_prompt_tokens
        for level, num_tokens in prefix.num_tokens:
            cell.found[level.value] = cell.found.get(level.value, 0) + num_tokens

    def cells(self) -> list[HeatCell]:
        """Oldest first; those in which nothing ended are left out. From any thread."""
        return list(self._cells)

    def go_on_from(self, cells: list[HeatCell]) -> None:
        """Count on from what a process before this one had."""
        self._cells.extend(cells)

    def _cell_at(self, number: int) -> HeatCell:
        if not self._cells or self._cells[-1].number != number:
            self._cells.append(HeatCell(number))
        return self._cells[-1]
