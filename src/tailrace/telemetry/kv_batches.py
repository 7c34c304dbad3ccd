"""What became of blocks, in the bytes that cache-aware routers read: vLLM's, as MessagePack.

    batch   [seconds since 1970, [event, ...], rank]
    event   {"type": "BlockStored", "block_hashes": [...], "parent_block_hash": ..., "token_ids": [...], ...}
            {"type": "BlockRemoved", "block_hashes": [...], "medium": ...}
            {"type": "AllBlocksCleared"}

A hash is the last 8 of a name's 16 bytes, as a number: readers take no more.
"""

import time
from collections.abc import Callable, Sequence

import msgspec

from tailrace.records import BlockRemoved, BlockStored, CacheCleared, KvFact
from tailrace.types import Level

__all__ = ["BatchEncoder"]

_MEDIA = {Level.ENGINE: "CPU", Level.HOST: "CPU", Level.DISK: "STORAGE", Level.REDIS: "STORAGE"}
_BITS = {level: 1 << index for index, level in enumerate(Level)}
_LEVELS = {
    medium: sum(_BITS[level] for level in Level if _MEDIA[level] == medium) for medium in sorted(set(_MEDIA.values()))
}
_MAX_NAMES = 1 << 20
_RANK = 0


class _Stored(msgspec.Struct, tag="BlockStored", omit_defaults=True):
    block_hashes: list[int]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str
    lora_name: str | None
    extra_keys: list[list[str] | None] | None = None  # what a block's hash depends on besides tokens: a tenant


class _Removed(msgspec.Struct, tag="BlockRemoved"):
    block_hashes: list[int]
    medium: str


class _Cleared(msgspec.Struct, tag="AllBlocksCleared"):
    pass


_Event = _Stored | _Removed | _Cleared


class BatchEncoder:
    """Remembers which levels have a name: a medium has lost it only with the last of its levels.

    Of more than `max_names`, the oldest is told to be removed.
    """

    def __init__(self, block_tokens: int, clock: Callable[[], float] = time.time, max_names: int = _MAX_NAMES) -> None:
        self._block_tokens = block_tokens
        self._clock = clock
        self._max_names = max_names
        self._levels: dict[bytes, int] = {}
        self._encoder = msgspec.msgpack.Encoder()
        self._last: bytes | None = None  # the name that the newest event ends with

    def encode(self, facts: Sequence[KvFact]) -> bytes | None:
        """The batch of these facts; None when there is nothing to tell."""
        events: list[_Event] = []
        for fact in facts:
            match fact:
                case BlockStored():
                    self._store(fact, events)
                case BlockRemoved():
                    self._remove(fact, events)
                case CacheCleared():
                    self._levels.clear()
                    events.append(_Cleared())
        return self._encoder.encode((self._clock(), events, _RANK)) if events else None

    def _store(self, fact: BlockStored, events: list[_Event]) -> None:
        self._levels[fact.name] = self._levels.get(fact.name, 0) | _BITS[fact.level]
        if not (events and self._continues(fact, events[-1])):
            events.append(self._begin(fact))
        self._last = fact.name
        if len(self._levels) > self._max_names:
            oldest = next(iter(self._levels))
            levels = self._levels.pop(oldest)
            events += [_Removed([_hash(oldest)], medium) for medium, bits in _LEVELS.items() if levels & bits]

    def _continues(self, fact: BlockStored, event: _Event) -> bool:
        """Add the block to the event before, if it is the next of its chain."""
        if not isinstance(event, _Stored) or fact.parent != self._last or event.medium != _MEDIA[fact.level]:
            return False
        if not (event.token_ids and fact.token_ids):
            return False
        event.block_hashes.append(_hash(fact.name))
        event.token_ids += fact.token_ids
        if event.extra_keys is not None:
            event.extra_keys.append(None)
        return True

    def _begin(self, fact: BlockStored) -> _Stored:
        is_salted_first = fact.parent is None and bool(fact.tenant)
        return _Stored(
            block_hashes=[_hash(fact.name)],
            parent_block_hash=None if fact.parent is None else _hash(fact.parent),
            token_ids=list(fact.token_ids),
            block_size=self._block_tokens,
            lora_id=None,
            medium=_MEDIA[fact.level],
            lora_name=None,
            extra_keys=[[fact.tenant.hex()]] if is_salted_first else None,
        )

    def _remove(self, fact: BlockRemoved, events: list[_Event]) -> None:
        medium, before = _MEDIA[fact.level], self._levels.get(fact.name, 0)
        after = before & ~_BITS[fact.level]
        if after:
            self._levels[fact.name] = after
        else:
            self._levels.pop(fact.name, None)
        if before == after or after & _LEVELS[medium]:
            return
        last = events[-1] if events else None
        if isinstance(last, _Removed) and last.medium == medium:
            last.block_hashes.append(_hash(fact.name))
        else:
            events.append(_Removed([_hash(fact.name)], medium))


def _hash(name: bytes) -> int:
    return int.from_bytes(name[-8:], "big")
