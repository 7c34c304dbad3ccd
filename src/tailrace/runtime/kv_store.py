"""The levels below the engine, each with a thread of its own: nobody waits for a level, however it fails.

    lookup  level after level, each with a deadline                             lookups.py
    fetch   level -> bounce rows -> [still wanted?] -> rows of the pool          fetches.py
    save    rows of the pool -> staging rows -> every level                      saves.py

Only this side's own copies touch the pool: no level ever sees it.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tailrace.kvcache.forget import Forget
from tailrace.kvcache.transfer import Fetch, ForgetNotice, Lookup, Save, StoreAnswer
from tailrace.levels.api import BlockLevel
from tailrace.records import LevelReport
from tailrace.runtime.fetches import Fetches
from tailrace.runtime.level_worker import LevelWorker
from tailrace.runtime.log_watch import LogWatch
from tailrace.runtime.lookups import Lookups
from tailrace.runtime.saves import Saves
from tailrace.types import Level

__all__ = ["KvStore", "KvStoreConfig"]

_DEADLINES_S: Mapping[Level, float] = dict.fromkeys(Level, 0.25)


@dataclass(frozen=True, slots=True)
class KvStoreConfig:
    """`deadlines_s`: how long a lookup in a level may take, and each few blocks of a fetch."""

    deadlines_s: Mapping[Level, float] = field(default_factory=lambda: _DEADLINES_S)
    max_fetch_s: float = 2.0
    staging_bytes: int = 64 << 20
    bounce_bytes: int = 4 << 20  # of each level
    close_s: float = 2.0  # for what is still to be saved


class KvStore:
    """A BlockStore. `wake` is called, from any thread, when there is something to `take`."""

    def __init__(
        self,
        levels: Sequence[BlockLevel],
        pool: NDArray[np.uint8],
        wake: Callable[[], None],
        everything: Forget,
        *,
        config: KvStoreConfig | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`pool`: [num_blocks, block_bytes]. The levels, nearest first, are closed with the store.

        `everything` covers all that they can give to this engine.
        """
        config = config or KvStoreConfig()
        self.levels = tuple(level.level for level in levels)
        self._close_s = config.close_s
        self._wake = wake
        self._lock = threading.Lock()
        self._answers: list[StoreAnswer] = []
        self._notices: list[tuple[Level, int, tuple[Forget, ...]]] = []
        self._watch = LogWatch(levels, self._notice, everything)
        self._versions: Mapping[Level, int] = self._watch.versions()  # of the forgets that the engine has taken in
        self._saves = Saves(pool, self._answer, config.staging_bytes)
        self._workers = tuple(
            LevelWorker(
                level,
                self._saves.write,
                self._saves.let_go,
                everything=everything,
                max_saves=self._saves.share(len(levels)),
                deadline_s=config.deadlines_s[level.level],
                clock=clock,
            )
            for level in levels
        )
        self._lookups = Lookups(self._workers, self._answer, clock)
        self._fetches = Fetches(
            dict(zip(self.levels, self._workers, strict=True)),
            pool,
            self._answer,
            bounce_bytes=config.bounce_bytes,
            max_fetch_s=config.max_fetch_s,
            clock=clock,
        )
        for worker in self._workers:
            worker.start()
        self._saves.start(self._workers)
        if (version := self._versions.get(Level.REDIS)) is not None:
            for worker in self._workers[: self.levels.index(Level.REDIS)]:
                worker.hear_from(version)
        self._watch.start()

    @property
    def due_s(self) -> float | None:
        due_s = [due_s for due_s in (self._lookups.due_s, self._fetches.due_s) if due_s is not None]
        return min(due_s, default=None)

    def look_up(self, lookup: Lookup) -> None:
        self._lookups.start(lookup)

    def fetch(self, fetch: Fetch) -> None:
        self._fetches.start(fetch)

    def save(self, saves: tuple[Save, ...]) -> int:
        return self._saves.save(saves, self._versions)

    def forget(self, forgets: tuple[Forget, ...]) -> None:
        self._saves.drop(forgets)
        for worker in self._workers:
            worker.forget(forgets)

    def take(self) -> list[StoreAnswer]:
        """What others have forgotten comes first, so that nothing of it arrives or is saved from then on."""
        self._lookups.give_up_overdue()
        self._fetches.give_up_overdue()
        self._watch.look()
        with self._lock:
            answers, self._answers = self._answers, []
            notices, self._notices = self._notices, []
        return [*(self._passed_on(*notice) for notice in notices), *answers]

    def _notice(self, level: Level, version: int, forgets: tuple[Forget, ...]) -> None:
        """Others have forgotten this, up to `version` of the level's log. From any thread."""
        with self._lock:
            self._notices.append((level, version, forgets))
        self._wake()

    def _passed_on(self, level: Level, version: int, forgets: tuple[Forget, ...]) -> ForgetNotice:
        """Tell the levels that reach less far; what is saved behind this is of the new version."""
        self._saves.drop(forgets)
        for worker in self._workers:
            if level is Level.REDIS and worker.level is not Level.REDIS:
                worker.pass_on(forgets, version)
            elif worker.level is Level.DISK:
                worker.forget(forgets)
        self._versions = {**self._versions, level: version}
        return ForgetNotice(forgets)

    def report(self) -> tuple[LevelReport, ...]:
        """What each level holds, as of late, and has done. From any thread; it has the levels asked again."""
        reports = tuple(worker.report(self._saves.num_refused) for worker in self._workers)
        for worker in self._workers:
            worker.refresh()
        return reports

    def close(self) -> None:
        """Write what was taken, as far as it goes in `close_s`, then close the levels. One that is stuck is left."""
        end_s = time.monotonic() + self._close_s
        self._watch.close(self._close_s)
        self._saves.close()
        self._saves.join(self._close_s)
        for worker in self._workers:
            worker.close()
        for worker in self._workers:
            worker.join(max(end_s - time.monotonic(), 0.0))
        self._saves.drop_all()

    def _answer(self, answer: StoreAnswer) -> None:
        with self._lock:
            self._answers.append(answer)
        self._wake()
