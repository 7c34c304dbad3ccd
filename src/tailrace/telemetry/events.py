"""What happened to the server of late that its operators want to know, and how often things of each kind did."""

import time
from collections.abc import Iterable
from heapq import nlargest
from operator import attrgetter
from threading import Lock

from tailrace.records import EventKind, EventRecord
from tailrace.telemetry.catalogs import rules as catalog
from tailrace.telemetry.series import LabelledNumber, Series

__all__ = ["EventLog"]

_MAX_EVENTS = 100
_ACTIVE_AFTER = {EventKind.RULE_FIRED: 1, EventKind.RULE_CLEARED: 0}


class EventLog:
    """From any thread: events are rare, and so is a wait for another."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._latest: list[EventRecord] = []  # newest first
        self._counts = LabelledNumber(catalog.EVENTS, [(kind.value,) for kind in EventKind])
        self._fired = LabelledNumber(catalog.RULES_FIRED)
        self._active = LabelledNumber(catalog.RULE_ACTIVE)
        self.series: tuple[Series, ...] = (self._counts, self._fired, self._active)

    def watch_rules(self, names: Iterable[str]) -> None:
        """Show the rules of these names, which have not fired."""
        for name in names:
            self._fired.add(0, name)
            self._active.set(0, name)

    def record(self, event: EventRecord) -> None:
        """It happened now, here."""
        with self._lock:
            self._keep([event])
            self._counts.add(1, event.kind.value)
            if event.kind is EventKind.RULE_FIRED:
                self._fired.add(1, event.rule)
            if event.kind in _ACTIVE_AFTER:
                self._active.set(_ACTIVE_AFTER[event.kind], event.rule)

    def tell(self, kind: EventKind, message: str) -> None:
        """Something happened now, here, that is none of a rule's doing."""
        self.record(EventRecord(time.time(), kind, message))

    def remember(self, events: Iterable[EventRecord]) -> None:
        """They happened in another process, or before, and are counted there."""
        with self._lock:
            self._keep(events)

    def latest(self) -> list[EventRecord]:
        """The latest hundred, newest first."""
        return list(self._latest)

    def _keep(self, events: Iterable[EventRecord]) -> None:
        """A new list each time: who reads the one before is not disturbed."""
        self._latest = nlargest(_MAX_EVENTS, [*events, *self._latest], key=attrgetter("at_s"))
