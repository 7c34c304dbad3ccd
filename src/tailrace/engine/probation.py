"""Requests that may have killed an engine: they come back one at a time, so that the next death tells who it was."""

from collections import OrderedDict
from collections.abc import Callable, Sequence

from tailrace.engine.wire import Submit
from tailrace.types import TokenEvent

__all__ = ["Probation"]


class Probation:
    """Used by one thread, but for `saw`."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[int, Submit] = OrderedDict()
        self._past: int | None = None  # the number of one that came past the point where it was
        self.current: Submit | None = None  # who was let in last, and may kill the engine again
        self.aside: dict[str, Submit] = {}  # by request id: let in, but not to be computed until they are current again

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def hold(self, submit: Submit) -> None:
        self._waiting[submit.number] = submit

    def withdraw(self, number: int) -> Submit | None:
        """Take out one that waits; None: it does not."""
        return self._waiting.pop(number, None)

    def withdraw_all(self, is_meant: Callable[[int], bool]) -> None:
        """Take out those that wait under these numbers."""
        for number in [number for number in self._waiting if is_meant(number)]:
            del self._waiting[number]

    def saw(self, events: Sequence[TokenEvent]) -> bool:
        """Whether the current one is past the point where it was, since there is a token or an end of it."""
        current = self.current
        if current is None or all(event.request_id != current.request.request_id for event in events):
            return False
        self._past = current.number
        return True

    def release(self, number: int) -> None:
        """The current one, if it has this number, holds up others no longer."""
        if self.current is not None and self.current.number == number:
            self.current = None

    @property
    def is_free(self) -> bool:
        """Whether another may be the current one."""
        if self.current is not None and self.current.number == self._past:
            self.current = None
        return self.current is None

    def set_aside(self) -> None:
        """The current one cannot go on, and holds up nobody until `bring_back`."""
        if not self.is_free and self.current is not None:
            self.aside[self.current.request.request_id] = self.current
            self.current = None

    def bring_back(self, request_id: str) -> None:
        """One that was set aside is the current one again."""
        self.current = self.aside.pop(request_id)

    def next(self) -> Submit | None:
        """Who is to be let in now; None: nobody."""
        if not self.is_free or not self._waiting:
            return None
        self.current = self._waiting.popitem(last=False)[1]
        return self.current
