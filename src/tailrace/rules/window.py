"""What happened within the last so many seconds, in memory that does not grow: sums in cells, and the latest values."""

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence

__all__ = ["LatestValues", "WindowSums"]

_NUM_CELLS = 20  # a window slides by one of them
_MAX_VALUES = 500  # beyond, the window is shorter than was asked for


class WindowSums:
    """Several sums together over a window, and at most a cell more: what they are less what they were before it.

    To ask costs no more however much has happened.
    """

    def __init__(self, num_sums: int, window_s: float) -> None:
        self._cell_s = window_s / _NUM_CELLS
        self._sums: tuple[float, ...] = (0.0,) * num_sums  # since the start
        self._cells: deque[tuple[int, tuple[float, ...]]] = deque()  # with the sums before each

    def add(self, amounts: Sequence[float], now_s: float) -> None:
        index = math.floor(now_s / self._cell_s)
        if not self._cells or self._cells[-1][0] != index:
            self._cells.append((index, self._sums))
            self._drop(index)
        self._sums = tuple([total + amount for total, amount in zip(self._sums, amounts, strict=True)])

    def totals(self, now_s: float) -> tuple[float, ...]:
        self._drop(math.floor(now_s / self._cell_s))
        before = self._cells[0][1] if self._cells else self._sums
        return tuple([total - earlier for total, earlier in zip(self._sums, before, strict=True)])

    def _drop(self, index: int) -> None:
        while self._cells and self._cells[0][0] < index - _NUM_CELLS:
            self._cells.popleft()


class LatestValues:
    """The values within a window, kept in order beside: a quantile is an index."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._values: deque[tuple[float, float]] = deque()
        self._sorted: list[float] = []

    def add(self, value: float, now_s: float) -> None:
        if len(self._values) == _MAX_VALUES:
            self._drop_oldest()
        self._values.append((now_s, value))
        insort(self._sorted, value)

    def count(self, now_s: float) -> int:
        while self._values and self._values[0][0] < now_s - self._window_s:
            self._drop_oldest()
        return len(self._values)

    def quantile(self, share: float) -> float:
        """The least value that `share` of them do not exceed. There must be one."""
        return self._sorted[max(math.ceil(share * len(self._sorted)) - 1, 0)]

    def _drop_oldest(self) -> None:
        _, value = self._values.popleft()
        del self._sorted[bisect_left(self._sorted, value)]
