"""One level below the engine and the one thread that calls it: what is read comes before what is written."""

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tailrace.kvcache.forget import Forget
from tailrace.levels.api import BlockLevel, LevelFailure, LevelStats
from tailrace.levels.breaker import Breaker
from tailrace.records import LevelReport
from tailrace.runtime.staging import StagedBlock
from tailrace.types import Level

__all__ = ["Job", "LevelCounts", "LevelWorker"]

logger = logging.getLogger(__name__)

_MAX_READS = 4096  # lookups, fetches and forgets that may wait for one level
_MAX_OWED = 16_384  # blocks of a long prompt; more forgets than that are made up for by forgetting everything
_SAVES_AT_ONCE = 16
_STATS_EVERY_S = 1.0
_FORGET_AGAIN_S = 0.5  # after it failed to
_TELL_EVERY_S = 10.0  # of a fault that a level has again and again


@dataclass(slots=True)
class LevelCounts:
    """Since the start. Written by one thread, read by any."""

    num_blocks_fetched: int = 0
    fetch_s: float = 0.0
    num_blocks_saved: int = 0
    num_blocks_dropped: int = 0  # were to be saved and were not
    num_failures: int = 0
    stats: LevelStats | None = None  # as of late


Job = Callable[["LevelWorker"], None]


class LevelWorker:
    """Runs jobs in turn. A job that the level fails, in whatever way, costs a count; how it is, its breaker says."""

    def __init__(
        self,
        level: BlockLevel,
        write: Callable[[BlockLevel, Sequence[StagedBlock]], int],
        done: Callable[[Sequence[StagedBlock]], None],
        *,
        everything: Forget,
        max_saves: int,
        deadline_s: float,
        clock: Callable[[], float],
    ) -> None:
        """`write` puts staged blocks and says how many were written; `done` hears of them afterwards, in any case.

        `everything` covers all that the level can give.
        """
        self.counts = LevelCounts()
        self.deadline_s = deadline_s
        self._level = level
        self._write = write
        self._done = done
        self._everything = everything
        self._max_saves = max_saves
        self._clock = clock
        self._changed = threading.Condition()
        self._reads: deque[Job] = deque()
        self._saves: deque[StagedBlock] = deque()
        self._writing: Sequence[StagedBlock] = ()  # no longer in the queue
        self._busy_since_s: float | None = None
        self._owed: dict[Forget, None] = {}
        self._num_forgetting = 0  # no longer owed, not yet carried out
        self._stats_s = clock()
        self._health = level.health if isinstance(level, Breaker) else None
        self._tell_again_s = -math.inf
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name=f"tailrace-kv-{level.level}", daemon=True)

    @property
    def level(self) -> Level:
        return self._level.level

    @property
    def is_stuck(self) -> bool:
        """Whether its thread has been at one thing for longer than anybody waits."""
        since_s = self._busy_since_s
        return since_s is not None and self._clock() - since_s > self.deadline_s

    def start(self) -> None:
        self._thread.start()

    def ready(self) -> BlockLevel:
        """The level, for a job to use, once it has forgotten what it must. Raises LevelFailure if it cannot."""
        self._busy_since_s = self._clock()
        with self._changed:
            owed, self._owed = self._owed, {}  # what is told meanwhile, even of the same, comes after
            self._num_forgetting = len(owed)
        if owed:
            self._forget(owed)
        return self._level

    def _forget(self, owed: dict[Forget, None]) -> None:
        try:
            self._level.forget(tuple(owed))
        except BaseException:
            with self._changed:
                self._owe(owed)
            raise
        finally:
            self._num_forgetting = 0

    def _owe(self, forgets: Iterable[Forget]) -> None:
        self._owed.update(dict.fromkeys(forgets))
        if len(self._owed) > _MAX_OWED:
            self._owed = {self._everything: None}

    def read(self, job: Job) -> bool:
        """Let the level do something soon; False when it has too much to do, or nothing comes of it at the moment."""
        with self._changed:
            if self.is_stuck or self._is_closing or len(self._reads) >= _MAX_READS:
                return False
            self._reads.append(job)
            self._changed.notify()
            return True

    def go_on(self, job: Job) -> None:
        """On the level's thread: let others have their turn before this, which is the rest of a job."""
        with self._changed:
            self._reads.append(job)

    def forget(self, forgets: Sequence[Forget]) -> None:
        """Have the level forget before it does anything else. If it fails to, it is asked for nothing until it has."""
        with self._changed:
            self._owe(forgets)
            if not self._reads or self._reads[0] is not _get_ready:  # once is enough, however long a level is stuck
                self._reads.appendleft(_get_ready)
            self._changed.notify()

    def pass_on(self, forgets: Sequence[Forget], version: int) -> None:
        """As `forget`, and note that it is what others forgot on a level that reaches further, up to this version.

        On a level that several engines share, one of them is enough to say it.
        """
        if version > self._level.told:
            self.forget(forgets)
            self.read(lambda worker: worker._note(version))

    def hear_from(self, version: int) -> None:
        """What nobody has told of that log so far is told from this version on."""
        if not self._level.told:
            self.read(lambda worker: worker._note(version))

    def _note(self, version: int) -> None:
        self.ready().told = version

    def save(self, block: StagedBlock) -> bool:
        """Have a block written in time; False when too many wait already."""
        with self._changed:
            if self._is_closing or len(self._saves) >= self._max_saves:
                self.counts.num_blocks_dropped += 1
                return False
            self._saves.append(block)
            self._changed.notify()
            return True

    def drop_saves(self, is_dropped: Callable[[StagedBlock], bool]) -> list[StagedBlock]:
        """Take back some of what waits to be written; what is about to be is not written either."""
        with self._changed:
            for block in self._writing:
                block.is_dropped |= is_dropped(block)
            dropped = [block for block in self._saves if is_dropped(block)]
            self._saves = deque(block for block in self._saves if not is_dropped(block))
            self.counts.num_blocks_dropped += len(dropped)
            return dropped

    def refresh(self) -> None:
        """Ask the level how it is, soon."""
        self.read(LevelWorker._look)

    def report(self, num_refused: int) -> LevelReport:
        """`num_refused` blocks were to be saved and did not come that far."""
        counts = self.counts
        with self._changed:
            num_pending = len(self._owed) + self._num_forgetting
        stats = counts.stats or LevelStats(0, 0, 0, 0, 0)
        return LevelReport(
            level=self.level,
            is_working=(self._health is None or self._health.is_well) and not self.is_stuck,
            num_blocks=stats.num_blocks,
            num_bytes=stats.num_bytes,
            max_bytes=stats.max_bytes,
            num_evicted_blocks=stats.num_evicted,
            num_corrupt_blocks=stats.num_corrupt,
            num_fetched_blocks=counts.num_blocks_fetched,
            fetch_s=counts.fetch_s,
            num_saved_blocks=counts.num_blocks_saved,
            num_dropped_blocks=counts.num_blocks_dropped + num_refused,
            num_failures=counts.num_failures,
            num_forgets_pending=num_pending,
        )

    def close(self) -> None:
        """Let the thread end once it has done what waits; it closes the level."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread to end, but not for one that is stuck."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        self._attempt(LevelWorker._look)
        while (job := self._next()) is not None:
            self._busy_since_s = self._clock()
            self._attempt(job)
            if self._clock() - self._stats_s > _STATS_EVERY_S:
                self._attempt(LevelWorker._look)
            self._busy_since_s = None
        if self._owed:  # the blocks may outlive this process
            self._attempt(_get_ready)
        self._attempt(lambda worker: worker._level.close())

    def _next(self) -> Job | None:
        with self._changed:
            again_s = _FORGET_AGAIN_S if self._owed else None  # others may go on giving it out
            if not self._changed.wait_for(lambda: self._reads or self._saves or self._is_closing, again_s):
                return _get_ready
            if self._reads:
                return self._reads.popleft()
            blocks = [self._saves.popleft() for _ in range(min(len(self._saves), _SAVES_AT_ONCE))]
            self._writing = blocks
        return (lambda worker: worker._put(blocks)) if blocks else None

    def _attempt(self, job: Job) -> None:
        try:
            job(self)
        except LevelFailure:
            self.counts.num_failures += 1
        except Exception:  # no level should
            self.counts.num_failures += 1
            self._tell_of_fault()

    def _tell_of_fault(self) -> None:
        now_s = self._clock()
        if now_s >= self._tell_again_s:
            self._tell_again_s = now_s + _TELL_EVERY_S
            logger.exception("a fault of the %s level, please report it: the request goes on without it", self.level)

    def _put(self, blocks: Sequence[StagedBlock]) -> None:
        num_written = 0
        try:
            level = self.ready()  # once it has forgotten what it was told, nothing of that may follow
            num_written = self._write(level, [block for block in blocks if not block.is_dropped])
        finally:
            self.counts.num_blocks_saved += num_written
            self.counts.num_blocks_dropped += len(blocks) - num_written
            self._done(blocks)

    def _look(self) -> None:
        self._stats_s = self._clock()
        with suppress(LevelFailure):  # tells nothing of how well it keeps blocks
            self.counts.stats = self._level.stats()


def _get_ready(worker: LevelWorker) -> None:
    worker.ready()
