"""What the users of a shared level have forgotten there, in order, for each of them to catch up with."""

from dataclasses import dataclass
from typing import Protocol

from tailrace.kvcache.forget import Forget

__all__ = ["DeltaLog", "Deltas"]


@dataclass(frozen=True, slots=True)
class Deltas:
    """What others have forgotten up to `version`. Who has taken it in has taken in all, unless it is not `complete`.

    Then the log does not reach back to where the reader was: anything may have been forgotten in between.
    """

    version: int
    forgets: tuple[Forget, ...] = ()
    is_complete: bool = True


class DeltaLog(Protocol):
    """Bounded. Versions only grow, also when the log was lost and a new one begun. May be read by any thread."""

    def version(self) -> int:
        """That of the newest forget. Raises LevelFailure."""
        ...

    def read(self, since: int) -> Deltas:
        """What others than this log's owner have appended behind version `since`. Raises LevelFailure."""
        ...
