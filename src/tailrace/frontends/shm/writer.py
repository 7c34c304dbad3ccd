"""Writes one answer after another into a lane, at the pace of its reader."""

import asyncio
import time
from collections.abc import Callable

from tailrace.frontends.shm.layout import Lane
from tailrace.frontends.shm.wire import Down

__all__ = ["LaneWriter", "Stalled"]

_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _PATIENT_PAUSE_S = 1e-3, 50e-3, 1.0


class Stalled(Exception):
    """The client has read nothing of an answer for too long."""


class LaneWriter:
    """`tell` says in the pipe that there is news; it is called while the client watches this lane.

    A full lane is looked at again from time to time: its reader has hundreds of tokens before it then, so that neither
    waits for the other; and on whether it ever reads again no other lane depends.
    """

    def __init__(self, lane: Lane, tell: Callable[[], None], stall_s: float) -> None:
        self._ring = lane.ring
        self._bell = lane.bell
        self._tell = tell
        self._stall_s = stall_s
        self._is_watched = False

    def watch(self) -> None:
        """Until its end somebody watches this answer, of which there may be news already."""
        self._is_watched = True
        self._tell()

    async def write(self, kind: Down, content: bytes) -> None:
        """Returns when the lane has all of it. Raises Stalled, RingDamaged."""
        most = self._ring.max_message_bytes
        if len(content) > most:
            *parts, content = [content[begin : begin + most] for begin in range(0, len(content), most)]
            for part in parts:
                await self._write(Down.PART, part)
        await self._write(kind, content)

    async def write_last(self, kind: Down, content: bytes, on_written: Callable[[], None]) -> None:
        """However long that takes; `on_written` is called before anything of the client's that follows it can come."""
        pause_s = _FIRST_PAUSE_S
        while not self._ring.send(kind, 0, content):
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _PATIENT_PAUSE_S)
        on_written()
        self._ring_bells()
        self._is_watched = False

    async def _write(self, kind: Down, content: bytes) -> None:
        if not self._ring.send(kind, 0, content):
            await self._write_slowly(kind, content)
        self._ring_bells()

    async def _write_slowly(self, kind: Down, content: bytes) -> None:
        pause_s, ends_s = _FIRST_PAUSE_S, time.monotonic() + self._stall_s
        while not self._ring.send(kind, 0, content):
            if time.monotonic() > ends_s:
                raise Stalled
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _ring_bells(self) -> None:
        self._bell.ring()
        if self._is_watched:
            self._tell()
