"""Fetches: level -> bounce rows of its thread -> [still wanted?] -> rows of the pool."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.kvcache.transfer import Fetch, FetchAnswer
from tailrace.levels.api import checked
from tailrace.runtime.level_worker import LevelWorker
from tailrace.types import Level

__all__ = ["Fetches"]


@dataclass(eq=False, slots=True)
class _Fetching:
    """While `is_landing`, its thread copies to the pool, and it cannot be given up; once it is over, it never does."""

    fetch: Fetch
    started_s: float
    end_s: float  # it takes no longer
    due_s: float
    num_arrived: int = 0
    is_landing: bool = False
    is_over: bool = False


class Fetches:
    """A fetch goes by a few blocks at a time. Its deadline is for these, so that it is given up when nothing moves.

    Only the copy from the bounce rows, a matter of milliseconds, touches the pool. So a fetch can be answered at once
    when it is given up, though its level may go on to write: into bounce rows, which nobody reads then.
    """

    def __init__(
        self,
        workers: Mapping[Level, LevelWorker],
        pool: NDArray[np.uint8],
        answer: Callable[[FetchAnswer], None],
        *,
        bounce_bytes: int,
        max_fetch_s: float,
        clock: Callable[[], float],
    ) -> None:
        """`pool`: [num_blocks, block_bytes]. `bounce_bytes` are kept for each level."""
        num_rows = max(bounce_bytes // pool.shape[1], 1)
        self._bounce = {level: np.empty((num_rows, pool.shape[1]), np.uint8) for level in workers}
        self._num_rows = num_rows
        self._workers = workers
        self._pool = pool
        self._answer = answer
        self._max_fetch_s = max_fetch_s
        self._clock = clock
        self._lock = threading.Lock()
        self._under_way: dict[int, _Fetching] = {}

    @property
    def due_s(self) -> float | None:
        with self._lock:
            return min((fetching.due_s for fetching in self._under_way.values()), default=None)

    def start(self, fetch: Fetch) -> None:
        now_s, worker = self._clock(), self._workers[fetch.level]
        end_s = now_s + min(fetch.patience_s, self._max_fetch_s)
        fetching = _Fetching(fetch, now_s, end_s, min(now_s + worker.deadline_s, end_s))
        with self._lock:
            self._under_way[fetch.fetch_id] = fetching
            if not worker.read(lambda worker: self._run(worker, fetching)):
                self._end(fetching, is_down=True)

    def give_up_overdue(self) -> None:
        if not self._under_way:  # as in most steps
            return
        now_s = self._clock()
        with self._lock:
            for fetching in list(self._under_way.values()):
                if fetching.due_s <= now_s and not fetching.is_landing:
                    self._end(fetching, is_down=True)

    def _run(self, worker: LevelWorker, fetching: _Fetching) -> None:
        """On the level's thread: a few blocks, then it is somebody else's turn."""
        if fetching.is_over:
            return
        try:
            self._move(worker, fetching)
        except BaseException:
            with self._lock:
                if not fetching.is_over:
                    self._end(fetching, is_down=True)
            raise
        worker.go_on(lambda worker: self._run(worker, fetching))

    def _move(self, worker: LevelWorker, fetching: _Fetching) -> None:
        """Bring the next few blocks."""
        part = slice(fetching.num_arrived, fetching.num_arrived + self._num_rows)
        names, block_ids = fetching.fetch.names[part], fetching.fetch.block_ids[part]
        before = (*fetching.fetch.before, *fetching.fetch.names[: part.start])
        bounce = self._bounce[worker.level][: len(names)]
        count = checked(worker.ready().get(names, [memoryview(row) for row in bounce], before), len(names))
        if self._may_land(fetching):
            for row, block_id in zip(bounce[:count], block_ids, strict=False):
                np.copyto(self._pool[block_id], row)
            self._landed(fetching, count, is_last=count < self._num_rows)

    def _may_land(self, fetching: _Fetching) -> bool:
        with self._lock:
            fetching.is_landing = not fetching.is_over
            deadline_s = self._workers[fetching.fetch.level].deadline_s
            fetching.due_s = min(self._clock() + deadline_s, fetching.end_s)
            return fetching.is_landing

    def _landed(self, fetching: _Fetching, count: int, *, is_last: bool) -> None:
        with self._lock:
            fetching.is_landing = False
            fetching.num_arrived += count
            is_late = self._clock() > fetching.end_s
            if is_last or is_late or fetching.num_arrived == len(fetching.fetch.names):
                self._end(fetching, is_down=is_late)

    def _end(self, fetching: _Fetching, *, is_down: bool) -> None:
        fetching.is_over = True
        del self._under_way[fetching.fetch.fetch_id]
        took_s = self._clock() - fetching.started_s
        if fetching.num_arrived:
            counts = self._workers[fetching.fetch.level].counts
            counts.num_blocks_fetched += fetching.num_arrived
            counts.fetch_s += took_s
        self._answer(FetchAnswer(fetching.fetch.fetch_id, fetching.num_arrived, took_s, is_down))
