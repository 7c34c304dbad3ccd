"""How a level is, as its operator sees it: one line in the log for each change, whatever noticed it."""

import logging
from enum import StrEnum
from threading import Lock

from tailrace.records import EventKind, Tell, untold
from tailrace.types import Level

__all__ = ["LevelHealth", "Part"]

logger = logging.getLogger(__name__)


class Part(StrEnum):
    """What can be down by itself. Without the log, nobody knows what others forget: nothing may be given out."""

    READING = "reading"
    WRITING = "writing"
    LOG = "log"


class LevelHealth:
    """From any thread. What several parts notice is one line, and one more when all of them are well again.

    `tell` hears the same as the log.
    """

    def __init__(self, level: Level, tell: Tell = untold) -> None:
        self._level = level
        self._tell_operator = tell
        self._lock = Lock()
        self._reasons: dict[Part, str] = {}  # of what is down
        self._last_told: str | None = None

    @property
    def is_well(self) -> bool:
        """As the last line in the log says."""
        return not self._reasons

    def down(self, part: Part, reason: str) -> None:
        with self._lock:
            self._reasons[part] = reason
            self._tell()

    def up(self, part: Part) -> None:
        with self._lock:
            if self._reasons.pop(part, None) is not None:
                self._tell()

    def _tell(self) -> None:
        reasons = [reason for part, reason in self._reasons.items() if part is not Part.WRITING]
        if reasons:
            self._log(EventKind.LEVEL_DOWN, "is down, requests go on without it", reasons[0])
        elif self._reasons:
            reason = self._reasons[Part.WRITING]
            self._log(EventKind.LEVEL_DOWN, "is read, but nothing can be written to it", reason)
        else:
            self._log(EventKind.LEVEL_UP, "works again")

    def _log(self, kind: EventKind, state: str, reason: str | None = None) -> None:
        if state != self._last_told:
            self._last_told = state
            message = f"the {self._level} level {state}" + ("" if reason is None else f": {reason}")
            logger.warning("%s", message)
            self._tell_operator(kind, message)
