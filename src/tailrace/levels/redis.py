"""Blocks in a Redis or Valkey server, shared by all hosts that name it.

    key    tailrace:<version>:<fingerprint>:<name>, both in hexadecimal
    value  one block, see `redis_value`; it expires when nobody has used it for its time to live

What bounds it is the server's own `maxmemory` with a policy that evicts (allkeys-lru), and the time to live: what
others keep there cannot be counted here. One server, not a cluster; Redis 6.2 or newer, any Valkey.
"""

import secrets
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tailrace.errors import SetupError
from tailrace.kvcache.forget import Forget, Scope
from tailrace.levels import redis_value
from tailrace.levels.api import LevelFailure, LevelStats, Outdated, StoredBlock
from tailrace.levels.redis_log import LAST, LOG_KEY, RedisLog, newest
from tailrace.levels.redis_sweep import Sweeper, drop, sweep
from tailrace.levels.redis_value import HEADER_BYTES, WRITTEN_AT, key_prefix
from tailrace.types import Level

if TYPE_CHECKING:  # the extra may be missing
    from tailrace.levels.redis_wire import Wire

__all__ = ["RedisLevel", "open_redis"]

_TRIP_BLOCKS = 16
_TRIP_BYTES = 8 << 20  # the same for large blocks: a round trip must end soon
_TRIP_NAMES = 256
_MAX_BLOCK_BYTES = 64 << 20
_OWNER_BYTES = 8
_ANY_VERSION = 1 << 63


def open_redis(
    url: str, fingerprint: bytes, ttl_s: float, *, timeout_s: float = 0.25, max_block_bytes: int = _MAX_BLOCK_BYTES
) -> "RedisLevel":
    """The level at `url`, which is not asked yet. Raises SetupError for a wrong URL, or without redis-py."""
    try:
        from tailrace.levels.redis_wire import Wire  # noqa: PLC0415 - an extra
    except ImportError:
        raise SetupError("--kv-redis needs redis-py and hiredis: pip install 'tailrace[redis]'") from None
    return RedisLevel(partial(Wire, url, timeout_s), fingerprint, ttl_s, max_block_bytes)


class RedisLevel:
    """A `BlockLevel`. A block that is there already is not written again; it lives longer."""

    level = Level.REDIS
    told = 0

    def __init__(self, connect: "Callable[[], Wire]", fingerprint: bytes, ttl_s: float, max_block_bytes: int) -> None:
        """No connection is made before it is used. Blocks above `max_block_bytes` are not kept."""
        self._wire = connect()
        self._fingerprint = fingerprint
        self.log = RedisLog(connect(), secrets.token_bytes(_OWNER_BYTES))
        self._sweeper = Sweeper(connect(), fingerprint)
        self._prefix = key_prefix(fingerprint)
        self._ttl_ms = max(1, round(ttl_s * 1000))
        self._max_block_bytes = max_block_bytes
        self._num_evicted_before: int | None = None
        self._num_corrupt = 0

    def contain(self, names: Sequence[bytes]) -> int:
        for start in range(0, len(names), _TRIP_NAMES):
            part = names[start : start + _TRIP_NAMES]
            replies = self._wire.round_trip([("EXISTS", self._key(name)) for name in part])
            found = [self._wire.number(reply) for reply in replies]
            if 0 in found:
                return start + found.index(0)
        return len(names)

    def elsewhere(self, content: bytes) -> None:
        """Nobody knows: keys are names."""

    def get(self, names: Sequence[bytes], into: Sequence[memoryview], before: Sequence[bytes] = ()) -> int:
        """What was forgotten is not given out, also while others still drop it, or died over that."""
        chain = [*before, *names]
        for start, stop in _trips([buffer.nbytes for buffer in into]):
            num_arrived = self._get(names[start:stop], into[start:stop], chain[: len(before) + start])
            if num_arrived < stop - start:
                return start + num_arrived
        return len(names)

    def put(self, blocks: Sequence[StoredBlock], version: int) -> int:
        small = [block for block in blocks if block.data.nbytes <= self._max_block_bytes]
        for start, stop in _trips([block.data.nbytes for block in small]):
            self._put(small[start:stop], version)
        return len(small)

    def forget(self, forgets: Sequence[Forget]) -> int:
        """Nothing that these cover is given out any more. Blocks go at once and are counted, all else soon.

        The log comes first: whoever has not taken it in cannot write any more, and what was written is there to be
        found. A full server takes in nothing before something has gone.
        """
        try:
            version = self.log.append(forgets)
        except LevelFailure:
            sweep(self._wire, self._fingerprint, dict.fromkeys(forgets, _ANY_VERSION))
            version = self.log.append(forgets)
        self._sweeper.ask([forget for forget in forgets if forget.scope is not Scope.BLOCK], version)
        return drop(self._wire, [self._key(forget.target) for forget in forgets if forget.scope is Scope.BLOCK])

    def stats(self) -> LevelStats:
        """Of the whole server, whoever uses it; `max_bytes` 0: it has no bound."""
        num_keys, memory, events = self._wire.round_trip([("DBSIZE",), ("INFO", "memory"), ("INFO", "stats")])
        num_evicted = self._field(events, b"evicted_keys")
        if self._num_evicted_before is None or num_evicted < self._num_evicted_before:
            self._num_evicted_before = num_evicted
        return LevelStats(
            num_blocks=self._wire.number(num_keys),
            num_bytes=self._field(memory, b"used_memory"),
            max_bytes=self._field(memory, b"maxmemory"),
            num_evicted=num_evicted - self._num_evicted_before,
            num_corrupt=self._num_corrupt,
        )

    def close(self) -> None:
        self._sweeper.close()
        self._wire.close()
        self.log.close()

    def _get(self, names: Sequence[bytes], into: Sequence[memoryview], before: Sequence[bytes]) -> int:
        forgotten = self.log.forgotten()
        since = forgotten.since(before)
        num_bytes = sum(buffer.nbytes + HEADER_BYTES for buffer in into)
        keys = [self._key(name) for name in names]
        values = self._wire.round_trip([("GETEX", key, "PX", self._ttl_ms) for key in keys], num_bytes)
        for index, value in enumerate(values):
            if value is None:
                return index
            is_whole = redis_value.unpack_into(self._wire.bytes_of(value), names[index], into[index])
            since = max(since, forgotten.since(names[index : index + 1]))
            if not (is_whole and forgotten.is_valid(*redis_value.origin_of(self._wire.bytes_of(value)), since)):
                self._num_corrupt += not is_whole
                drop(self._wire, [keys[index]])
                return index
        return len(names)

    def _put(self, blocks: Sequence[StoredBlock], version: int) -> None:
        """Write what is missing, or older than the last forget, in one transaction; it fails if the log goes on."""
        keys = [self._key(block.head.name) for block in blocks]
        renew = [("PEXPIRE", key, self._ttl_ms) for key in keys]
        look = [("GETRANGE", key, *WRITTEN_AT) for key in keys]
        _, _, last, *replies = self._wire.round_trip([("UNWATCH",), ("WATCH", LOG_KEY), LAST, *renew, *look])
        if newest(last, self._wire) != version:
            raise Outdated
        current = version.to_bytes(8, "little")
        wanted = [
            (key, block)
            for key, block, reply in zip(keys, blocks, replies[len(keys) :], strict=True)
            if self._wire.bytes_of(reply) != current
        ]
        if wanted:
            self._write(wanted, version)

    def _write(self, blocks: Sequence[tuple[bytes, StoredBlock]], version: int) -> None:
        writes = [("SET", key, redis_value.pack(block, version), "PX", self._ttl_ms) for key, block in blocks]
        num_bytes = sum(block.data.nbytes for _, block in blocks)
        *_, done = self._wire.round_trip([("MULTI",), *writes, ("EXEC",)], num_bytes)
        if done is None:
            raise Outdated
        if not isinstance(done, list) or any(reply != b"OK" for reply in done):
            raise self._wire.nonsense()

    def _key(self, name: bytes) -> bytes:
        return self._prefix + name.hex().encode()

    def _field(self, info: object, name: bytes) -> int:
        """A number of an INFO reply; 0 where the server does not tell it."""
        lines = (line.partition(b":") for line in self._wire.bytes_of(info).splitlines())
        value = next((value for key, _, value in lines if key == name), b"0")
        return int(value) if value.isdigit() else 0


def _trips(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Cut a batch so that no round trip takes too many blocks or, but for a single one, too many bytes."""
    start, num_bytes = 0, 0
    for index, size in enumerate(sizes):
        if index > start and (index - start == _TRIP_BLOCKS or num_bytes + size > _TRIP_BYTES):
            yield start, index
            start, num_bytes = index, 0
        num_bytes += size
    if sizes:
        yield start, len(sizes)
