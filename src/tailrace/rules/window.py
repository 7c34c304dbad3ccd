"""What happened within the last so many seconds, in memory that does not grow: sums in cells, and the latest values."""

import math
from collections import deque

__all__ = ["LatestValues", "WindowSums"]

_NUM_CELLS = 20  # a window slides by one of them
_MAX_VALUES = 500  # beyond, the window is shorter than was asked for


class WindowSums:
    """Several sums together over a window, and at most a cell more."""

    def __init__(self, num_sums: int, window_s: float) -> None:
        self._cell_s = window_s / _NUM_CELLS
        self._cells: deque[tuple[int, list[float]]] = deque()
        self._num_sums = num_sums

    def add(self, amounts: tuple[float, ...], now_s: float) -> None:
        index = math.floor(now_s / self._cell_s)
        if not self._cells or self._cells[-1][0] != index:
            self._cells.append((index, [0.0] * self._num_sums))
        sums = self._cells[-1][1]
        for place, amount in enumerate(amounts):
            sums[place] += amount
        self._drop(index)

    def totals(self, now_s: float) -> tuple[float, ...]:
        self._drop(math.floor(now_s / self._cell_s))
        return tuple(sum(sums[place] for _, sums in self._cells) for place in range(self._num_sums))

    def _drop(self, index: int) -> None:
        while self._cells and self._cells[0][0] < index - _NUM_CELLS:
            self._cells.popleft()


class LatestValues:
    """The values within a window, of which there is a quantile."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._values: deque[tuple[float, float]] = deque(maxlen=_MAX_VALUES)

    def add(self, value: float, now_s: float) -> None:
        self._values.append((now_s, value))

    def count(self, now_s: float) -> int:
        while self._values and self._values[0][0] < now_s - self._window_s:
            self._values.popleft()
        return len(self._values)

    def quantile(self, share: float) -> float:
        """The least value that `share` of them do not exceed. There must be one."""
        ordered = sorted(value for _, value in self._values)
        return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]
