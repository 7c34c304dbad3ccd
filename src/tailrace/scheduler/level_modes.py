"""How each level below the engine is used: asked and waited for, asked behind requests, or for a small sample alone."""

from collections.abc import Mapping
from zlib import crc32

from tailrace.types import Level, LevelMode

__all__ = ["LevelModes"]

SAMPLE = 8  # one request in so many is asked about, and saved to, a level that is bypassed


class LevelModes:
    """All are used as ever until `change`.

    A bypassed level would never be seen to recover, so a sample of requests goes on with it, which do not wait for it
    either: it is asked for what they lack, and what they compute is saved to it. Who is of the sample follows from the
    request alone, so that it asks and saves alike.
    """

    def __init__(self) -> None:
        self._modes: Mapping[Level, LevelMode] = {}
        self.unawaited: frozenset[Level] = frozenset()

    def change(self, modes: Mapping[Level, LevelMode]) -> None:
        """From now on; those that are not named are used as ever."""
        self._modes = modes
        self.unawaited = frozenset(level for level, mode in modes.items() if mode is not LevelMode.NORMAL)

    def of(self, level: Level) -> LevelMode:
        return self._modes.get(level, LevelMode.NORMAL)

    def asked_behind(self, request_id: str) -> frozenset[Level]:
        """The levels that are asked while a request goes on."""
        return self.unawaited - self.not_saved_to(request_id)

    def not_saved_to(self, request_id: str | None) -> frozenset[Level]:
        """The levels that do not get what was computed for a request."""
        if not self.unawaited or _is_of_the_sample(request_id):
            return frozenset()
        return frozenset(level for level in self.unawaited if self.of(level) is LevelMode.BYPASSED)

    def weight(self, level: Level) -> int:
        """For how many requests one that asks this level stands."""
        return SAMPLE if self.of(level) is LevelMode.BYPASSED else 1


def _is_of_the_sample(request_id: str | None) -> bool:
    return request_id is not None and crc32(request_id.encode()) % SAMPLE == 0
