"""What lies where in a segment: the memory that one client and the server share, and nobody else.

    0          head          64 bytes: the magic word, and this layout's version, as words of 8 bytes
    4096       asks          a MessageRing of 4 MiB, from the client: requests (wire.py)
    + 4 MiB    lane 0        a FutexBell in 64 bytes, on which the client sleeps, and
                             a MessageRing of 32 KiB, from the server: one answer at a time
               lane 1, ...   64 of them, so many answers at once
    page       end

The client makes it and gives it its memory, so that no client costs the server any. A lane that is full holds up its
own answer alone. Two pipes lie beside it: one byte in `up` says that there are asks, one in `down` that a lane which is
watched has news; and each side sees by them at once that the other is gone, however it went. All names go as soon as
both have opened them: what is shared ends with the processes, and leaves nothing behind.

    tailrace-UID/                 in /dev/shm, for its owner alone
        NAME.lobby                locked as long as the server lives; says which version it speaks
        NAME.door                 a pipe, to the server: each record names a segment that wants in
        NAME.TOKEN.segment        until the server has opened them
        NAME.TOKEN.up
        NAME.TOKEN.down

What either side reads here may be anything: rings check what they find, and the server closes on one that breaks the
rules. Who can open these files is the same user, and could as well kill the server.
"""

import mmap
import os
from struct import Struct

from tailrace.ring import FutexBell, MessageRing

__all__ = ["LAYOUT_VERSION", "NUM_LANES", "SEGMENT_BYTES", "Lane", "Segment", "lane_at", "make_segment"]

LAYOUT_VERSION = 1
NUM_LANES = 64

_MAGIC = int.from_bytes(b"TRSHMSEG", "little")
_HEAD = Struct("<QQ")
_PAGE = 4096
_BELL_BYTES = FutexBell.NUM_BYTES
_LANE_RING_BYTES = MessageRing.bytes_for(32 * 1024)
_ASKS_BYTES = MessageRing.bytes_for(4 * 1024 * 1024)
_LANE_BYTES = _BELL_BYTES + _LANE_RING_BYTES
_LANES_AT = _PAGE + _ASKS_BYTES

SEGMENT_BYTES = -(-(_LANES_AT + NUM_LANES * _LANE_BYTES) // _PAGE) * _PAGE


class Lane:
    """Where one answer passes. The server sends and rings, the client sleeps and receives."""

    __slots__ = ("bell", "index", "ring")

    def __init__(self, index: int, memory: memoryview) -> None:
        self.index = index
        self.bell = FutexBell(memory[:_BELL_BYTES])
        self.ring = MessageRing(memory[_BELL_BYTES:])


class Segment:
    """A mapped segment. `asks` is the ring of requests; lanes are attached when they are first asked for."""

    def __init__(self, fd: int) -> None:
        # Never unmapped by hand: it goes with the last ring over it.
        self._memory = memoryview(mmap.mmap(fd, SEGMENT_BYTES))
        self.asks = MessageRing(self._memory[_PAGE:_LANES_AT])
        self._lanes: dict[int, Lane] = {}

    @property
    def is_of_this_version(self) -> bool:
        magic, version = _HEAD.unpack_from(self._memory)
        return bool(magic == _MAGIC and version == LAYOUT_VERSION)

    def lane(self, index: int) -> Lane:
        """Lane `index` of NUM_LANES."""
        lane = self._lanes.get(index)
        if lane is None:
            begin = lane_at(index)
            lane = self._lanes[index] = Lane(index, self._memory[begin : begin + _LANE_BYTES])
        return lane


def lane_at(index: int) -> int:
    """Where a lane lies in a segment: its bell, then its ring."""
    return _LANES_AT + index * _LANE_BYTES


def make_segment(fd: int) -> Segment:
    """Lay out an empty file. All of its memory is taken now: to write to a page that a full /dev/shm has no room for
    would be SIGBUS, to either side.

    Raises OSError when there is no room.
    """
    os.posix_fallocate(fd, 0, SEGMENT_BYTES)
    os.pwrite(fd, _HEAD.pack(_MAGIC, LAYOUT_VERSION), 0)
    return Segment(fd)
