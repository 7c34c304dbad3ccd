"""What is kept of streams so that they can be taken up again: a store of fixed size in memory that processes share.

    | slots, 64 bytes each                                                            | blocks (blocks.py)         |
    | id 16 | key 16 | epoch | serial | there | log | size of the head | taken | ended |

The chain that begins at block `there` - 1 is the head, the one at block `log` the words. Each owner, a process, has an
equal part of slots and blocks and is the only one to write there, but for the flag `taken`: so there is no lock that a
dead owner could hold. `there` is written last and cleared first, and whoever has read looks at the serial once more: a
slot that was given to another stream meanwhile is as good as gone.
"""

import struct
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tailrace.frontends.http.resume.blocks import BLOCK_BYTES, NO_WORD, PAYLOAD_BYTES, PAYLOAD_WORDS, Blocks

__all__ = ["Entry", "Kept", "ResumeStore"]

_BYTES_A_SLOT = 16 * 1024  # of the store: what most streams take
_SLOT = struct.Struct("=16s16sIIIIIId")
_THERE, _TAKEN, _ENDED = 40, 52, 56  # places in a slot
_WORD, _TIME = struct.Struct("=I"), struct.Struct("=d")
_RUNS = 0.0  # in place of the time at which it ended


class _Slot(NamedTuple):
    stream_id: bytes
    key: bytes
    epoch: int
    serial: int
    there: int
    log: int
    size: int
    taken: int
    ended_s: float


@dataclass(frozen=True, slots=True)
class Kept:
    """What there is of a stream: its head as it was given, and its words so far."""

    head: bytes
    words: "array[int]"
    epoch: int
    is_expired: bool


class ResumeStore:
    """A store, as the process sees it that owns one part of it. A stream is kept for `kept_s` after its end.

    Where there is no room, streams that have ended go, the first to end first; those that run are never forgotten for
    others.
    """

    def __init__(
        self,
        buffer: memoryview,
        *,
        owner: int = 0,
        num_owners: int = 1,
        kept_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`buffer` is zeros at first. What an owner finds of one before it, which has died, ends now."""
        slots_each = len(buffer) // _BYTES_A_SLOT // num_owners
        if slots_each == 0:
            raise ValueError(f"{len(buffer)} bytes are too few for {num_owners} owners of {_BYTES_A_SLOT} bytes")
        slot_bytes = slots_each * num_owners * _SLOT.size
        blocks_each = (len(buffer) - slot_bytes) // BLOCK_BYTES // num_owners
        self._kept_s = kept_s
        self._clock = clock
        self._slots = buffer[:slot_bytes]
        own_blocks = range(owner * blocks_each, (owner + 1) * blocks_each)
        self.blocks = Blocks(buffer[slot_bytes:][: num_owners * blocks_each * BLOCK_BYTES], own_blocks)
        self._free = list(reversed(range(owner * slots_each, (owner + 1) * slots_each)))
        self._running: dict[int, list[int]] = {}  # slots and their blocks
        self._ended: dict[int, list[int]] = {}  # the same; who ended first comes first
        self._serial = self._adopt()

    @property
    def num_kept(self) -> int:
        """Streams in this part."""
        return len(self._running) + len(self._ended)

    def create(self, stream_id: bytes, key: bytes, head: bytes, *, epoch: int = 0) -> "Entry | None":
        """Keeps a stream from now on, or the next epoch of one. `stream_id` and `key` are 16 bytes. None: no room."""
        self._forget_expired()
        while not self._free:
            if not self._forget_oldest():
                return None
        slot = self._free.pop()
        blocks = self._running[slot] = []
        if not self._write_head(slot, head) or (log := self.grow(slot)) is None:
            self.forget(slot)
            return None
        self._serial += 1
        fields = _Slot(stream_id, key, epoch, self._serial, 0, log, len(head), 0, _RUNS)
        _SLOT.pack_into(self._slots, slot * _SLOT.size, *fields)
        _WORD.pack_into(self._slots, slot * _SLOT.size + _THERE, blocks[0] + 1)
        return Entry(self, slot, log)

    def find(self, stream_id: bytes, key: bytes) -> Kept | None:
        """The last epoch of a stream, whoever keeps it, for who has its key."""
        found = [(self._slot(slot).epoch, slot) for slot in self._slots_of(stream_id) if self._slot(slot).key == key]
        return self._read(max(found)[1]) if found else None

    def take_over(self, stream_id: bytes, epoch: int) -> None:
        """Tells whoever keeps an earlier epoch of the stream that it has another reader."""
        for slot in self._slots_of(stream_id):
            if self._slot(slot).epoch < epoch:
                _WORD.pack_into(self._slots, slot * _SLOT.size + _TAKEN, 1)

    def is_taken_over(self, slot: int) -> bool:
        taken: int = _WORD.unpack_from(self._slots, slot * _SLOT.size + _TAKEN)[0]
        return taken != 0

    def grow(self, slot: int, after: int | None = None) -> int | None:
        """Another block for a stream that runs; None when there is no room."""
        while (block := self.blocks.take(after)) is None:
            if not self._forget_oldest():
                return None
        self._running[slot].append(block)
        return block

    def end(self, slot: int) -> None:
        """A stream runs no more: it is kept for a while."""
        self._ended[slot] = self._running.pop(slot)
        _TIME.pack_into(self._slots, slot * _SLOT.size + _ENDED, self._clock())

    def forget(self, slot: int) -> None:
        """Keep a stream no longer."""
        _WORD.pack_into(self._slots, slot * _SLOT.size + _THERE, 0)
        kept = self._running if slot in self._running else self._ended
        self.blocks.give_back(kept.pop(slot))
        self._free.append(slot)

    def _slot(self, slot: int) -> _Slot:
        return _Slot(*_SLOT.unpack_from(self._slots, slot * _SLOT.size))

    def _slots_of(self, stream_id: bytes) -> list[int]:
        table, found, at = self._slots.tobytes(), list[int](), -1
        while (at := table.find(stream_id, at + 1)) >= 0:
            slot, offset = divmod(at, _SLOT.size)
            if offset == 0 and self._slot(slot).there:
                found.append(slot)
        return found

    def _read(self, slot: int) -> Kept | None:
        before = self._slot(slot)
        head = self.blocks.read(before.there - 1)[: before.size]
        words = array("I", self.blocks.read(before.log))
        after = self._slot(slot)
        if not after.there or after.serial != before.serial:
            return None
        num_words = words.index(NO_WORD) if NO_WORD in words else len(words)
        is_expired = after.ended_s != _RUNS and self._clock() > after.ended_s + self._kept_s
        return Kept(head, words[:num_words], after.epoch, is_expired)

    def _write_head(self, slot: int, head: bytes) -> bool:
        block: int | None = None
        for begin in range(0, max(len(head), 1), PAYLOAD_BYTES):
            if (block := self.grow(slot, block)) is None:
                return False
            self.blocks.write(block, head[begin : begin + PAYLOAD_BYTES])
        return True

    def _adopt(self) -> int:
        """Keeps on what an owner before has left; the last serial that it gave."""
        now, slots = self._clock(), {slot: self._slot(slot) for slot in self._free}
        left = {slot: fields for slot, fields in slots.items() if fields.there}
        for slot, fields in sorted(left.items(), key=lambda item: item[1].ended_s or now):
            self._ended[slot] = [*self.blocks.chain(fields.there - 1), *self.blocks.chain(fields.log)]
            self.blocks.withhold(self._ended[slot])
            if fields.ended_s == _RUNS:
                _TIME.pack_into(self._slots, slot * _SLOT.size + _ENDED, now)
        self._free = [slot for slot in self._free if slot not in left]
        return max(fields.serial for fields in slots.values())

    def _forget_expired(self) -> None:
        while self._ended and self._clock() > self._slot(next(iter(self._ended))).ended_s + self._kept_s:
            self._forget_oldest()

    def _forget_oldest(self) -> bool:
        """Forgets the stream that ended first; False when none has."""
        if self._ended:
            self.forget(next(iter(self._ended)))
            return True
        return False


class Entry:
    """A stream that runs and is kept. When there is no room for more of it, it is forgotten, but goes on."""

    def __init__(self, store: ResumeStore, slot: int, log: int) -> None:
        self._store = store
        self._slot = slot
        self._block = log
        self._num_words = 0  # in that block
        self._is_kept = True

    @property
    def is_taken_over(self) -> bool:
        """Whether somebody reads a later epoch of it."""
        return self._is_kept and self._store.is_taken_over(self._slot)

    def add(self, words: Sequence[int]) -> None:
        """Keeps numbers of 32 bits, none of them all ones, behind those so far."""
        for word in words:
            if self._is_kept and self._num_words == PAYLOAD_WORDS:
                self._go_on()
            if not self._is_kept:
                return
            self._store.blocks.write_word(self._block, self._num_words, word)
            self._num_words += 1

    def end(self) -> None:
        """No more comes; from now on it is kept for a while."""
        if self._is_kept:
            self._is_kept = False
            self._store.end(self._slot)

    def _go_on(self) -> None:
        if (block := self._store.grow(self._slot, self._block)) is None:
            self._is_kept = False
            self._store.forget(self._slot)
        else:
            self._block, self._num_words = block, 0
