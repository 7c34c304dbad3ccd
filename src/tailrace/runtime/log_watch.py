"""Follows the logs of the levels that others share, so that this engine learns what they have forgotten."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from tailrace.kvcache.forget import Forget
from tailrace.levels.api import BlockLevel, LevelFailure
from tailrace.levels.delta_log import DeltaLog
from tailrace.types import Level

__all__ = ["LogWatch", "Notice"]

Notice = Callable[[Level, int, tuple[Forget, ...]], None]
"""Told of a level's log: up to which version it was read, and what others have forgotten in what is new."""

_NEAR = (Level.HOST,)  # memory: to look costs nothing
_EVERY_S = 0.025


class LogWatch:
    """Near logs are looked at by whoever calls `look`; each of the others has a thread that does nothing else.

    What cannot be read any more, because it was too long ago, may have been anything: then `everything` is forgotten.
    """

    def __init__(self, levels: Sequence[BlockLevel], notice: Notice, everything: Forget) -> None:
        logs = [(level.level, level.log) for level in levels if level.log is not None]
        since = min((level.told for level in levels if level.told), default=None)
        self._near = [_Follower(level, log, notice, everything) for level, log in logs if level in _NEAR]
        self._far = [_Follower(level, log, notice, everything, since) for level, log in logs if level not in _NEAR]
        self._is_closing = threading.Event()
        self._threads = [
            threading.Thread(target=self._follow, args=(each,), name=f"tailrace-kv-log-{each.level}", daemon=True)
            for each in self._far
        ]

    def versions(self) -> dict[Level, int]:
        """How far each log is known."""
        return {follower.level: follower.since for follower in (*self._near, *self._far)}

    def start(self) -> None:
        """Look at all of them once, and then again and again."""
        for follower in self._far:
            with suppress(LevelFailure):
                follower.look()
        for thread in self._threads:
            thread.start()

    def look(self) -> None:
        for follower in self._near:
            follower.look()

    def close(self, timeout_s: float) -> None:
        self._is_closing.set()
        for thread in self._threads:
            thread.join(timeout_s)

    def _follow(self, follower: "_Follower") -> None:
        while not self._is_closing.wait(_EVERY_S):
            with suppress(LevelFailure):  # its circuit says so in the log
                follower.look()


class _Follower:
    """Of one log, from version `since` on; without it, from where the log ends now."""

    def __init__(
        self, level: Level, log: DeltaLog, notice: Notice, everything: Forget, since: int | None = None
    ) -> None:
        self.level = level
        self.since = since or _end_of(log)
        self._log = log
        self._notice = notice
        self._everything = everything

    def look(self) -> None:
        """Raises LevelFailure when the log does not answer."""
        while self._log.version() != self.since:
            deltas = self._log.read(self.since)
            self.since = deltas.version
            self._notice(self.level, deltas.version, deltas.forgets if deltas.is_complete else (self._everything,))


def _end_of(log: DeltaLog) -> int:
    """0, from which on everything may have been forgotten, when the log does not say."""
    try:
        return log.version()
    except LevelFailure:
        return 0
