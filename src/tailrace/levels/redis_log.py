"""What was forgotten in a Redis server, as one stream there. The server's clock makes the versions.

    entry  <version>  o: who appended it   s: scope   t: targets, one behind the other
    entry  <version>  o: who appended it                           the beginning of a log

A server may lose the stream: it restarts, is flushed, or evicts it. Whoever finds none begins a new one; that its
beginning is younger than what a reader has taken in tells the reader that it may have missed something.
"""

import math
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from threading import Lock
from typing import TYPE_CHECKING

from tailrace.kvcache.forget import Forget, Scope
from tailrace.kvcache.invalidate import Forgotten
from tailrace.levels.delta_log import Deltas

if TYPE_CHECKING:  # the extra may be missing
    from tailrace.levels.redis_wire import Command, Wire

__all__ = ["LAST", "LOG_KEY", "RedisLog", "newest"]

LOG_KEY = b"tailrace-log:1"
LAST: "Command" = ("XREVRANGE", LOG_KEY, "+", "-", "COUNT", 1)

_MAX_ENTRIES = 4096
_READ_ENTRIES = 1000
_MAX_PAGES = 16  # more would be a log that nobody cuts
_ENTRY_TARGETS = 512
_TARGET_BYTES = 16
_TRIP_COMMANDS = 256
_KNOWN_S = 0.05  # how long the log need not be read again before a block is used
_SEQUENCE_BITS = 20  # of the entries of one millisecond

_Entry = tuple[int, dict[bytes, bytes]]


def newest(reply: object, wire: "Wire") -> int | None:
    """The version in the reply to LAST; None: there is no log."""
    entries = _entries(reply, wire)
    return entries[0][0] if entries else None


class RedisLog:
    """A `DeltaLog` over a connection of its own."""

    def __init__(self, wire: "Wire", owner: bytes) -> None:
        self._wire = wire
        self._owner = owner
        self._lock = Lock()
        self._forgotten = Forgotten(floor=0)
        self._known: int | None = None  # up to which version that goes
        self._known_s = -math.inf

    def append(self, forgets: Sequence[Forget]) -> int:
        """Tell everybody of these; the version from which on they are told."""
        commands = [*_appends(forgets, self._owner), LAST]
        with self._lock:
            self._known_s = -math.inf
            for start in range(0, len(commands), _TRIP_COMMANDS):
                *_, last = self._wire.round_trip(commands[start : start + _TRIP_COMMANDS])
            version = newest(last, self._wire)
        if version is None:
            raise self._wire.nonsense()
        return version

    def version(self) -> int:
        with self._lock:
            return self._version()

    def read(self, since: int) -> Deltas:
        with self._lock:
            (reply,) = self._wire.round_trip([("XRANGE", LOG_KEY, _id(since), "+", "COUNT", _READ_ENTRIES)])
            entries = _entries(reply, self._wire)
            if not entries or entries[0][0] != since:
                return Deltas(self._version(since), is_complete=False)
            others = [fields for _, fields in entries[1:] if fields.get(b"o") != self._owner]
            return Deltas(entries[-1][0], tuple(forget for fields in others for forget in _forgets(fields, self._wire)))

    def forgotten(self) -> Forgotten:
        """What everybody has forgotten, as of a moment ago, as far as the log reaches back. Not to be kept."""
        with self._lock:
            if self._known is None or time.monotonic() - self._known_s > _KNOWN_S:
                started_s = time.monotonic()
                self._catch_up()
                self._known_s = started_s
            return self._forgotten

    def close(self) -> None:
        with self._lock:
            self._wire.close()

    def _catch_up(self) -> None:
        """Read what is new; all there is when nothing is known yet, or when there is a gap before it."""
        for _ in range(_MAX_PAGES):
            start = "-" if self._known is None else _id(self._known)
            (reply,) = self._wire.round_trip([("XRANGE", LOG_KEY, start, "+", "COUNT", _READ_ENTRIES)])
            entries = _entries(reply, self._wire)
            if self._known is None:
                self._known = entries[0][0] if entries else self._version()
                self._forgotten = Forgotten(floor=self._known)
            elif not entries or entries[0][0] != self._known:
                self._known = None
                continue
            self._take_in(entries)
            if len(entries) < _READ_ENTRIES:
                return
        raise self._wire.nonsense()

    def _take_in(self, entries: Sequence[_Entry]) -> None:
        for version, fields in entries:
            for forget in _forgets(fields, self._wire):
                self._forgotten.add(forget, version)
            self._known = version

    def _version(self, at_least: int = 0) -> int:
        (reply,) = self._wire.round_trip([LAST])
        version = newest(reply, self._wire)
        if version is None:
            version = self._begin("*")
        if version < at_least:  # the log was lost, and the server's clock has been set back
            version = self._begin(_id(at_least + 1))
        return version

    def _begin(self, entry_id: str) -> int:
        self._wire.round_trip([_append(entry_id, self._owner)])
        (reply,) = self._wire.round_trip([LAST])
        version = newest(reply, self._wire)
        if version is None:
            raise self._wire.nonsense()
        return version


def _appends(forgets: Sequence[Forget], owner: bytes) -> "list[Command]":
    return [
        _append("*", owner, b"s", scope.encode(), b"t", b"".join(targets[start : start + _ENTRY_TARGETS]))
        for scope, group in groupby(forgets, lambda forget: forget.scope)
        for targets in ([forget.target for forget in group],)
        for start in range(0, len(targets), _ENTRY_TARGETS)
    ]


def _append(entry_id: str, owner: bytes, *fields: bytes) -> "Command":
    return ("XADD", LOG_KEY, "MAXLEN", "~", _MAX_ENTRIES, entry_id, b"o", owner, *fields)


def _id(version: int) -> str:
    return f"{version >> _SEQUENCE_BITS}-{version & ((1 << _SEQUENCE_BITS) - 1)}"


def _entries(reply: object, wire: "Wire") -> list[_Entry]:
    if not isinstance(reply, list):
        raise wire.nonsense()
    return [_entry(entry, wire) for entry in reply]


def _entry(entry: object, wire: "Wire") -> _Entry:
    match entry:
        case [bytes(entry_id), list(fields)] if all(isinstance(field, bytes) for field in fields):
            ms, _, sequence = entry_id.partition(b"-")
            if ms.isdigit() and sequence.isdigit() and len(entry_id) < 40:
                return int(ms) << _SEQUENCE_BITS | int(sequence), dict(zip(fields[::2], fields[1::2], strict=False))
    raise wire.nonsense()


def _forgets(fields: dict[bytes, bytes], wire: "Wire") -> Iterator[Forget]:
    """None in the beginning of a log."""
    if b"s" not in fields:
        return
    try:
        scope, targets = Scope(fields[b"s"].decode()), fields[b"t"]
    except (KeyError, ValueError):
        raise wire.nonsense() from None
    if len(targets) % _TARGET_BYTES:
        raise wire.nonsense()
    for start in range(0, len(targets), _TARGET_BYTES):
        yield Forget(scope, targets[start : start + _TARGET_BYTES])
