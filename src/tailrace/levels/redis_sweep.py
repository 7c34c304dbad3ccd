"""Removes from a Redis server what was forgotten there: in a thread of its own, for it looks at all that is there.

Nobody depends on it: readers know from the log what they must not give out. An index of what belongs together would
find it sooner, but could itself be evicted, and then something would stay.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from threading import Condition, Thread
from typing import TYPE_CHECKING, NamedTuple

from tailrace.kvcache.forget import Forget, Scope
from tailrace.kvcache.naming import root_of
from tailrace.kvcache.transfer import BlockHead
from tailrace.levels.api import LevelFailure
from tailrace.levels.redis_value import HEADER_BYTES, WRITTEN_AT, head_of, key_prefix, origin_of

if TYPE_CHECKING:  # the extra may be missing
    from tailrace.levels.redis_wire import Wire

__all__ = ["Sweeper", "drop", "sweep"]

logger = logging.getLogger(__name__)

_SCAN_KEYS = 2000
_MAX_SCANS = 1 << 13  # a server may never say that a scan has come to its end
_DROP_KEYS = 500
_MAX_TRIES = 8  # what is written all the time is left to expire
_MAX_ASKED = 1024
_RETRY_S = 30.0
_JOIN_S = 5.0


class _Found(NamedTuple):
    key: bytes
    head: BlockHead
    written_at: int


def sweep(wire: "Wire", fingerprint: bytes, forgets: Mapping[Forget, int]) -> int:
    """Remove what these cover and was written before the version that each has; how many blocks."""
    prefixes, others = (
        _of_scope(forgets, Scope.PREFIX),
        _of_scope(forgets, Scope.BLOCK, Scope.TENANT, Scope.FINGERPRINT),
    )
    num_dropped = 0
    if prefixes:  # first, for it needs to see what lies between
        num_dropped += _sweep_prefixes(wire, fingerprint, prefixes)
    if others:
        num_dropped += sum(_drop_older(wire, _covered(batch, others)) for batch in _found(wire, key_prefix()))
    return num_dropped


def drop(wire: "Wire", keys: Sequence[bytes]) -> int:
    """Remove these keys; how many there were."""
    num_dropped = 0
    for start in range(0, len(keys), _SCAN_KEYS):
        (reply,) = wire.round_trip([("UNLINK", *keys[start : start + _SCAN_KEYS])])
        num_dropped += wire.number(reply)
    return num_dropped


class Sweeper:
    """The thread; it begins with the first thing to do. Bounded: for too many forgets, all blocks of the model go."""

    def __init__(self, wire: "Wire", fingerprint: bytes) -> None:
        self._wire = wire
        self._fingerprint = fingerprint
        self._changed = Condition()
        self._asked: dict[Forget, int] = {}
        self._is_closing = False
        self._thread: Thread | None = None

    def ask(self, forgets: Collection[Forget], version: int) -> None:
        """Sweep for these, which the log has at `version`, soon."""
        if not forgets:
            return
        with self._changed:
            self._asked.update(dict.fromkeys(forgets, version))
            if len(self._asked) > _MAX_ASKED:
                self._asked = {Forget(Scope.FINGERPRINT, self._fingerprint): version}
            if self._thread is None:
                self._thread = Thread(target=self._run, name="tailrace-kv-redis-sweep", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """What is not done yet is left to expire."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_JOIN_S)
        self._wire.close()

    def _run(self) -> None:
        while forgets := self._next():
            try:
                sweep(self._wire, self._fingerprint, forgets)
            except LevelFailure as failure:
                logger.debug("what was forgotten is removed later: %s", failure)
                self._put_off(forgets)

    def _next(self) -> dict[Forget, int]:
        with self._changed:
            self._changed.wait_for(lambda: self._asked or self._is_closing)
            forgets, self._asked = {} if self._is_closing else self._asked, {}
        return forgets

    def _put_off(self, forgets: Mapping[Forget, int]) -> None:
        with self._changed:
            self._asked = {**forgets, **self._asked}
            self._changed.wait_for(lambda: self._is_closing, _RETRY_S)


def _of_scope(forgets: Mapping[Forget, int], *scopes: Scope) -> dict[Forget, int]:
    return {forget: version for forget, version in forgets.items() if forget.scope in scopes}


def _covered(batch: Sequence[_Found], forgets: Mapping[Forget, int]) -> dict[bytes, int]:
    """The keys of what these cover, with the version before which it must have been written to be so."""
    since = {each.key: max(forgets.get(forget, 0) for forget in _covering(each.head)) for each in batch}
    return {each.key: since[each.key] for each in batch if each.written_at < since[each.key]}


def _covering(head: BlockHead) -> tuple[Forget, ...]:
    block, tenant = Forget(Scope.BLOCK, head.name), Forget(Scope.TENANT, head.tenant)
    return block, tenant, Forget(Scope.FINGERPRINT, head.fingerprint)


def _drop_older(wire: "Wire", since: Mapping[bytes, int]) -> int:
    """Remove what still is of before the version that its key has here: others may have written it anew meanwhile."""
    keys, num_dropped = list(since), 0
    for start in range(0, len(keys), _DROP_KEYS):
        part = keys[start : start + _DROP_KEYS]
        for _ in range(_MAX_TRIES):
            dropped = _try_drop_older(wire, {key: since[key] for key in part})
            if dropped is not None:
                num_dropped += dropped
                break
    return num_dropped


def _try_drop_older(wire: "Wire", since: Mapping[bytes, int]) -> int | None:
    """None: somebody has written one of them in between."""
    look = [("GETRANGE", key, *WRITTEN_AT) for key in since]
    _, _, *fields = wire.round_trip([("UNWATCH",), ("WATCH", *since), *look])
    versions = (int.from_bytes(wire.bytes_of(field) or b"\xff" * 8, "little") for field in fields)
    older = [key for key, version in zip(since, versions, strict=True) if version < since[key]]
    if not older:
        return 0
    _, _, done = wire.round_trip([("MULTI",), ("UNLINK", *older), ("EXEC",)])
    if done is None:
        return None
    if not isinstance(done, list) or len(done) != 1:
        raise wire.nonsense()
    return wire.number(done[0])


def _sweep_prefixes(wire: "Wire", fingerprint: bytes, prefixes: Mapping[Forget, int]) -> int:
    """With all that continues them, and all that may: where a block in between has gone, nobody can tell."""
    found = {each.head.name: each for batch in _found(wire, key_prefix(fingerprint)) for each in batch}
    roots = {root_of(each.head.fingerprint, each.head.tenant) for each in found.values()}
    children = defaultdict[bytes, list[bytes]](list)
    for each in found.values():
        children[each.head.parent].append(each.head.name)
    newest = max(prefixes.values())
    since = {parent: newest for parent in children if parent not in found and parent not in roots}
    since |= {forget.target: version for forget, version in prefixes.items()}
    queue = list(since)
    for parent in queue:  # it grows meanwhile
        for child in children.get(parent, ()):
            if since.get(child, 0) < since[parent]:
                since[child] = since[parent]
                queue.append(child)
    return _drop_older(wire, {found[name].key: version for name, version in since.items() if name in found})


def _found(wire: "Wire", prefix: bytes) -> Iterator[list[_Found]]:
    """The blocks whose keys begin so, in batches; some may come twice."""
    for keys in _scan(wire, prefix):
        starts = wire.round_trip([("GETRANGE", key, 0, HEADER_BYTES - 1) for key in keys])
        values = [(key, wire.bytes_of(start)) for key, start in zip(keys, starts, strict=True)]
        yield [_Found(key, *origin_of(value)) for key, value in values if head_of(value) is not None]


def _scan(wire: "Wire", prefix: bytes) -> Iterator[list[bytes]]:
    cursor = b"0"
    for _ in range(_MAX_SCANS):
        (reply,) = wire.round_trip([("SCAN", cursor, "MATCH", prefix + b"*", "COUNT", _SCAN_KEYS)])
        match reply:
            case [bytes(cursor), list(keys)] if all(isinstance(key, bytes) for key in keys):
                if keys:
                    yield keys
            case _:
                raise wire.nonsense()
        if cursor == b"0":
            return
    raise wire.nonsense()
