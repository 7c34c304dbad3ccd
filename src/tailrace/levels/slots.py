"""Which block lies in which slot: a hash index, and what eviction and invalidation must know, as columns over a buffer.

    buckets   [num_buckets]   link to the first slot of each bucket; a bucket is the low bits of a name
    next      [num_slots]     link to the next slot of the same bucket
    state     [num_slots]     free | writing | ready
    owner     [num_slots]     who writes there
    generation[num_slots]     grows whenever a slot changes hands: a copy made meanwhile is void
    children  [num_slots]     how many blocks continue this one; exact after `parents`
    last, previous            the last two uses, in seconds
    records   [num_slots, 12] name 2 | parent 2 | tenant 2 | fingerprint 2 | content 2 | checksum of the data | seal

A link is a slot plus one, so that zeroed memory is an empty table. The seal is a hash of the record and its slot.
Buckets, links and children follow from records and states: `rebuild` makes them anew.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from xxhash import xxh3_64_intdigest

from tailrace.kvcache.forget import Forget, Scope
from tailrace.kvcache.naming import root_of
from tailrace.kvcache.transfer import BlockHead

__all__ = ["FREE", "READY", "RECORD_WORDS", "WRITING", "SlotTable", "table_bytes"]

FREE, WRITING, READY = range(3)  # states of a slot

RECORD_WORDS = 12
_CHECKSUM, _SEAL = 10, 11
_NAME, _PARENT, _TENANT, _FINGERPRINT, _CONTENT = 0, 2, 4, 6, 8  # the first of two words each
_KEYS = {Scope.BLOCK: _NAME, Scope.TENANT: _TENANT, Scope.FINGERPRINT: _FINGERPRINT}
_ALIGN = 64
_LONGEST_CHAIN = 64  # links; more are a circle
_FEW = 32  # drops that cost less one by one than by building the index anew

Slots = NDArray[np.intp]


class _Column(NamedTuple):
    dtype: DTypeLike
    length: int

    @property
    def num_bytes(self) -> int:
        return -(-np.dtype(self.dtype).itemsize * self.length // _ALIGN) * _ALIGN


def _num_buckets(num_slots: int) -> int:
    return 1 << (num_slots - 1).bit_length()


def _columns(num_slots: int) -> dict[str, _Column]:
    return {
        "buckets": _Column(np.uint32, _num_buckets(num_slots)),
        "next": _Column(np.uint32, num_slots),
        "state": _Column(np.uint8, num_slots),
        "owner": _Column(np.uint8, num_slots),
        "generation": _Column(np.uint32, num_slots),
        "children": _Column(np.uint32, num_slots),
        "last": _Column(np.float64, num_slots),
        "previous": _Column(np.float64, num_slots),
        "records": _Column(np.uint64, num_slots * RECORD_WORDS),
    }


def table_bytes(num_slots: int) -> int:
    return sum(column.num_bytes for column in _columns(num_slots).values())


class _TornIndex(Exception):
    """A chain of the index runs in a circle or out of the table."""


class SlotTable:
    """The table over `buffer`, of `table_bytes(num_slots)` bytes. Who shares it holds its lock during each call."""

    def __init__(self, buffer: memoryview, num_slots: int) -> None:
        self.num_slots = num_slots
        columns = _columns(num_slots)
        self._buffer = buffer
        self._at = dict(zip(columns, np.cumsum([0, *(c.num_bytes for c in columns.values())]).tolist(), strict=False))
        self._shape = columns
        self.buckets: NDArray[np.uint32] = self._column("buckets")
        self.next: NDArray[np.uint32] = self._column("next")
        self.state: NDArray[np.uint8] = self._column("state")
        self.owner: NDArray[np.uint8] = self._column("owner")
        self.generation: NDArray[np.uint32] = self._column("generation")
        self.children: NDArray[np.uint32] = self._column("children")
        self.last: NDArray[np.float64] = self._column("last")
        self.previous: NDArray[np.float64] = self._column("previous")
        self.records: NDArray[np.uint64] = self._column("records").reshape(num_slots, RECORD_WORDS)

    def _column(self, name: str) -> NDArray[Any]:
        column = self._shape[name]
        return np.frombuffer(self._buffer, column.dtype, column.length, self._at[name])

    # --- finding ---

    def find(self, names: Sequence[bytes]) -> list[int | None]:
        """The slot of each block; None for one that is not there."""
        words = np.frombuffer(b"".join(names), np.uint64).reshape(-1, 2)
        return [int(slot) if slot < self.num_slots else None for slot in self._find(words)]

    def ready_run(self, names: Sequence[bytes]) -> list[int]:
        """The slots of these consecutive blocks, from the first on until one is missing."""
        run: list[int] = []
        for slot in self.find(names):
            if slot is None:
                break
            run.append(slot)
        return run

    def needed_for(self, heads: Sequence[BlockHead]) -> set[int]:
        """Slots that must not be emptied to make room for these blocks: without them they would be of no use."""
        found = self.find([head.name for head in heads] + [head.parent for head in heads])
        return {slot for slot in found if slot is not None}

    def _find(self, names: NDArray[np.uint64]) -> Slots:
        """[n, 2] -> [n]; `num_slots` for what is not there."""
        try:
            return self._walk(names)
        except _TornIndex:
            self.rebuild()
            return self._walk(names)

    def _walk(self, names: NDArray[np.uint64]) -> Slots:
        links = self.buckets[self._bucket(names)].astype(np.intp)
        pending = np.flatnonzero(links)
        for _ in range(_LONGEST_CHAIN):
            if not pending.size:
                return np.where(links, links - 1, self.num_slots)
            slots = links[pending] - 1
            if slots.max() >= self.num_slots:
                raise _TornIndex
            records = self.records[slots]
            others = (records[:, 0] != names[pending, 0]) | (records[:, 1] != names[pending, 1])
            pending = pending[others]
            links[pending] = self.next[slots[others]]
            pending = pending[links[pending] > 0]
        raise _TornIndex

    def _bucket(self, names: NDArray[np.uint64]) -> Slots:
        return (names[:, 0] & np.uint64(len(self.buckets) - 1)).astype(np.intp)

    def head(self, slot: int) -> BlockHead:
        words = self.records[slot, _NAME : _CONTENT + 2].reshape(-1, 2)
        return BlockHead(*(pair.tobytes() for pair in words))

    def checksum(self, slot: int) -> int:
        return int(self.records[slot, _CHECKSUM])

    def is_sealed(self, slot: int) -> bool:
        """Whether the record is as it was written."""
        record = self.records[slot]
        return bool(record[_SEAL] == _seal(record, slot))

    def _ready(self) -> Slots:
        return np.flatnonzero(self.state == READY)

    # --- changing ---

    def use(self, slots: Sequence[int], now_s: float) -> None:
        at = np.asarray(slots, np.intp)
        self.previous[at], self.last[at] = self.last[at], now_s

    def reserve(self, slots: Sequence[int], owner: int) -> None:
        """Take free slots to write in."""
        self.generation[slots] += 1
        self.owner[slots] = owner
        self.state[slots] = WRITING

    def publish(self, slots: Sequence[int], heads: Sequence[BlockHead], checksums: Sequence[int], now_s: float) -> None:
        """The blocks lie in their slots, whole: let them be found. Their names are not in the table."""
        self.records[slots, :_CHECKSUM] = np.frombuffer(b"".join(map(b"".join, heads)), np.uint64).reshape(
            -1, _CHECKSUM
        )
        self.records[slots, _CHECKSUM] = np.array(checksums, np.uint64)
        self.records[slots, _SEAL] = np.array([_seal(self.records[slot], slot) for slot in slots], np.uint64)
        self.last[slots], self.previous[slots] = now_s, -np.inf
        self.children[slots] = 0
        self.state[slots] = READY
        for slot, bucket in zip(slots, self._bucket(self.records[slots]).tolist(), strict=True):
            self.next[slot] = self.buckets[bucket]
            self.buckets[bucket] = slot + 1
        np.add.at(self.children, self._parents_of(np.asarray(slots, np.intp)), 1)

    def drop(self, slots: Sequence[int] | Slots) -> None:
        """Free these slots."""
        at = np.asarray(slots, np.intp)
        linked = at[self.state[at] == READY]
        self.generation[at] += 1
        self.state[at] = FREE
        self.records[at, _SEAL] = 0
        if len(linked) > _FEW:
            self._index()
        elif linked.size:
            self._take_out(linked)

    def _take_out(self, slots: Slots) -> None:
        try:
            for slot in slots.tolist():
                self._unlink(slot)
        except _TornIndex:
            self.rebuild()
            return
        for parent in self._parents_of(slots).tolist():
            self.children[parent] -= self.children[parent] > 0

    def _parents_of(self, slots: Slots) -> Slots:
        """Those that are there."""
        parents = self._find(self.records[slots, _PARENT : _PARENT + 2])
        return parents[parents < self.num_slots]

    def _unlink(self, slot: int) -> None:
        bucket = int(self.records[slot, 0]) & (len(self.buckets) - 1)
        at = int(self.buckets[bucket])
        if at == slot + 1:
            self.buckets[bucket] = self.next[slot]
            return
        for _ in range(_LONGEST_CHAIN):
            if not 0 < at <= self.num_slots:
                break
            following = int(self.next[at - 1])
            if following == slot + 1:
                self.next[at - 1] = self.next[slot]
                return
            at = following
        raise _TornIndex

    # --- the whole ---

    def rebuild(self) -> None:
        """Make the index anew, out of the records that are whole; the slots of all others are free."""
        self.state[self.state > READY] = FREE
        torn = [slot for slot in self._ready().tolist() if not self.is_sealed(slot)]
        self.state[torn] = FREE
        self._drop_doubles()
        self._index()

    def _index(self) -> None:
        slots = self._ready()
        buckets = self._bucket(self.records[slots])
        order = np.argsort(buckets, kind="stable")
        slots, buckets = slots[order], buckets[order]
        begins = np.append(True, buckets[1:] != buckets[:-1])[: len(slots)]
        self.buckets[:] = 0
        self.buckets[buckets[begins]] = slots[begins] + 1
        self.next[slots] = np.append(np.where(begins[1:], 0, slots[1:] + 1), 0)[: len(slots)]
        self.parents()

    def _drop_doubles(self) -> None:
        """Of two slots with one name, one is enough."""
        slots = self._ready()
        slots = slots[np.lexsort(self.records[slots, :2].T)]
        names = self.records[slots, :2].tolist()
        doubles = [slot for slot, (a, b) in zip(slots[1:].tolist(), pairwise(names), strict=True) if a == b]
        self.state[doubles] = FREE
        self.generation[doubles] += 1

    def parents(self) -> Slots:
        """[num_slots]: the slot of each block's parent, `num_slots` where there is none. Renews `children`."""
        slots = self._ready()
        parents = np.full(self.num_slots, self.num_slots, np.intp)
        parents[slots] = self._find(self.records[slots, _PARENT : _PARENT + 2])
        self.children[:] = np.bincount(parents[slots], minlength=self.num_slots + 1)[: self.num_slots]
        return parents

    @property
    def num_ready(self) -> int:
        return int(np.count_nonzero(self.state == READY))

    def forget(self, forgets: Sequence[Forget]) -> None:
        """Drop what they cover; single blocks last, for they may lie between a prefix and what continues it."""
        for forget in forgets:
            if forget.scope is Scope.PREFIX:
                self.drop(self._behind(forget.target))
            elif forget.scope is not Scope.BLOCK:
                self.drop(self._with_words(_KEYS[forget.scope], forget.target))
        names = {forget.target for forget in forgets if forget.scope is Scope.BLOCK}
        self.drop([slot for slot in self.find(list(names)) if slot is not None])

    def with_content(self, content: bytes) -> BlockHead | None:
        """The head of a block of these tokens."""
        slots = self._with_words(_CONTENT, content)
        if not len(slots):
            return None
        return self.head(int(slots[0]))

    def _with_words(self, column: int, words: bytes) -> Slots:
        slots = self._ready()
        first, second = np.frombuffer(words, np.uint64)
        hits: Slots = slots[(self.records[slots, column] == first) & (self.records[slots, column + 1] == second)]
        return hits

    def _behind(self, name: bytes) -> Slots:
        """The block and all that continue it, and all that may: where one in between is gone, nobody can tell.

        Whether an ancestor was reached is looked up 1, 2, 4 ... generations above, so that long chains cost little.
        """
        above = np.append(self.parents(), self.num_slots)
        reached = np.zeros(self.num_slots + 1, np.bool_)
        reached[self._with_words(_NAME, name)] = True
        reached[self._orphans(above)] = True
        for _ in range(self.num_slots.bit_length()):
            reached |= reached[above]
            above = above[above]
        behind: Slots = np.flatnonzero(reached[: self.num_slots])
        return behind

    def _orphans(self, parents: Slots) -> list[int]:
        """Blocks whose parent is not there, and that do not begin a chain either."""
        slots = self._ready()
        alone = slots[parents[slots] == self.num_slots]
        roots: dict[bytes, bytes] = {}
        orphans = []
        for slot, record in zip(alone.tolist(), self.records[alone, _PARENT : _FINGERPRINT + 2], strict=True):
            parent, owner = record[:2].tobytes(), record[2:].tobytes()
            if owner not in roots:
                roots[owner] = root_of(fingerprint=owner[16:], tenant=owner[:16])
            if parent != roots[owner]:
                orphans.append(slot)
        return orphans


def _seal(record: NDArray[np.uint64], slot: int) -> int:
    return xxh3_64_intdigest(record[:_SEAL].tobytes(), slot)
