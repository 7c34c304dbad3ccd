"""How the rules of the server stand: read from whoever looks at them, whenever somebody asks."""

from collections.abc import Callable, Sequence

from tailrace.records import RuleReport

__all__ = ["RuleReports"]


class RuleReports:
    """There are none until `watch` has said where they are."""

    def __init__(self) -> None:
        self._read: Callable[[], Sequence[RuleReport]] = tuple

    def watch(self, read: Callable[[], Sequence[RuleReport]]) -> None:
        """Take the reports from `read`, in any thread."""
        self._read = read

    def latest(self) -> list[RuleReport]:
        """Each rule, in the order in which they were listed."""
        return list(self._read())
