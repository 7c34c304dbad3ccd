"""A client's end of what it shares with a server: asks go up, a lane for each answer, and whether anybody is there.

Any thread may use it. An answer is read by whoever has its lane, without a lock.
"""

import os
import select
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakSet

from tailrace.errors import EngineError, InvalidRequest, Overloaded, RingDamaged, TailraceError, UnavailableError
from tailrace.frontends.shm.layout import NUM_LANES, Lane, Segment
from tailrace.frontends.shm.wire import Down, Up

if TYPE_CHECKING:
    from tailrace.client.watch import Watch

__all__ = ["Link"]

_LOOK_S = 0.25  # how often who waits looks whether the server lives
_SEND_S = 10.0  # for a server to take what was sent before
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1e-3, 16e-3
_MOMENT_S = 0.1


class Link:
    """`down` is the pipe that says that there is news in watched lanes, and ends with the server."""

    def __init__(self, segment: Segment, up: int, down: int) -> None:
        self.down = down
        self._segment = segment
        self._up = up
        self._lock = threading.Lock()
        self._free = deque(range(NUM_LANES))
        self._left: set[int] = set()  # whose answers were cancelled, and may not have ended
        self._dropped: deque[Lane] = deque()
        self._is_closed = False
        _links.add(self)

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @cached_property
    def watch(self) -> "Watch":
        """Of all answers that are read on event loops."""
        from tailrace.client.watch import Watch  # noqa: PLC0415  (event loops take longer to load than all the rest)

        return Watch(self.down)

    @contextmanager
    def _lane_to_ask(self, content: bytes) -> Iterator[Lane]:
        """A lane for one answer, for the caller alone until `give_back` or `leave`; free again if nothing was asked."""
        most = self._segment.asks.max_message_bytes - 1
        if len(content) > most:
            raise InvalidRequest(
                f"the request has {len(content):,} bytes; at most {most:,} can be sent through shared memory",
                param="prompt",
            )
        lane = self._take_lane()
        try:
            yield lane
        except BaseException:
            self.give_back(lane)
            raise

    def _take_lane(self) -> Lane:
        with self._lock:
            self._leave_dropped()
            for index in [index for index in self._left if _is_at_its_end(self._segment.lane(index))]:
                self._left.remove(index)
                self._free.append(index)
            if not self._free:
                raise Overloaded(
                    f"this client has {NUM_LANES} answers under way: wait for one to end, or connect once more",
                    retry_after_s=_MOMENT_S,
                )
            return self._segment.lane(self._free.popleft())

    def give_back(self, lane: Lane) -> None:
        """Its answer has ended, and was read to the end."""
        self._free.append(lane.index)

    def leave(self, lane: Lane) -> None:
        """Nobody wants to know the rest of its answer."""
        with self._lock:
            self._leave(lane)

    def drop(self, lane: Lane) -> None:
        """As `leave`, by a finalizer, which may interrupt whatever holds the lock: then who holds it next does it."""
        self._dropped.append(lane)
        if self._lock.acquire(blocking=False):
            try:
                self._leave_dropped()
            finally:
                self._lock.release()

    def ask(self, content: bytes) -> Lane:
        """The lane in which the answer comes. Raises InvalidRequest, Overloaded, UnavailableError."""
        with self._lane_to_ask(content) as lane:
            for pause_s in self._tries(Up.ASK, lane, content):
                time.sleep(pause_s)
        return lane

    async def aask(self, content: bytes) -> Lane:
        """As `ask`, on an event loop."""
        with self._lane_to_ask(content) as lane:
            await self._asend(Up.ASK, lane, content)
        return lane

    async def asend_watch(self, lane: Lane) -> None:
        """Let the server say in the pipe what is new of an answer. Raises UnavailableError."""
        await self._asend(Up.WATCH, lane)

    def wait(self, lane: Lane) -> None:
        """Sleeps until there may be news in a lane. Raises UnavailableError when none will come any more."""
        if not lane.bell.wait(_LOOK_S):
            self.check()

    def check(self) -> None:
        """Raises UnavailableError unless the server is there."""
        with self._lock:
            self._check()

    def close(self) -> None:
        """The server ends all answers. Harmless when it is closed already."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                os.close(self._up)
                os.close(self.down)

    def forget(self) -> None:
        """As `close`, in a process that was forked from that of the client and must not hold on to it."""
        self._lock = threading.Lock()
        self.close()

    def _leave_dropped(self) -> None:
        while self._dropped:
            self._leave(self._dropped.popleft())

    def _leave(self, lane: Lane) -> None:
        if _is_at_its_end(lane):  # which makes room for its end, too
            self._free.append(lane.index)
        elif not self._is_closed:
            self._left.add(lane.index)
            with suppress(TailraceError):  # it has ended with the server; or stalls, and ends so
                self._offer(Up.CANCEL, lane, b"")

    def _tries(self, kind: Up, lane: Lane, content: bytes) -> Iterator[float]:
        """Sends; how long to pause each time that the server has to take first what was sent before.

        Raises UnavailableError.
        """
        ends_s, pause_s = time.monotonic() + _SEND_S, _FIRST_PAUSE_S
        while not self._has_sent(kind, lane, content):
            if time.monotonic() > ends_s:
                raise UnavailableError(f"the server has taken no request for {_SEND_S:g} s")
            yield pause_s
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _asend(self, kind: Up, lane: Lane, content: bytes = b"") -> None:
        for pause_s in self._tries(kind, lane, content):
            await self.watch.pause(pause_s)

    def _has_sent(self, kind: Up, lane: Lane, content: bytes) -> bool:
        with self._lock:
            self._check()
            return self._offer(kind, lane, content)

    def _offer(self, kind: Up, lane: Lane, content: bytes) -> bool:
        try:
            if not self._segment.asks.send(kind, 0, bytes((lane.index,)), content):
                return False
            os.write(self._up, b".")
        except BlockingIOError:
            pass  # full of bytes that say the same
        except BrokenPipeError:
            raise UnavailableError(_GONE) from None
        except RingDamaged as error:
            raise EngineError(f"what is shared with the server is damaged: {error}") from None
        return True

    def _check(self) -> None:
        if self._is_closed:
            raise UnavailableError("this client is closed: connect again; one that was forked needs its own")
        poll = select.poll()
        poll.register(self._up, 0)
        if poll.poll(0):  # nobody reads it
            raise UnavailableError(_GONE)


_GONE = "the server has ended, or has cut off this client: connect again when it is back"
_links: WeakSet[Link] = WeakSet()


def _is_at_its_end(lane: Lane) -> bool:
    """Whether the answer in a lane that was left has ended. Drops what comes before."""
    with suppress(RingDamaged):
        while (message := lane.ring.receive()) is not None:
            if message[0] in (Down.END, Down.FAILED):
                return True
    return False


def _forget_all() -> None:
    for link in tuple(_links):
        link.forget()


os.register_at_fork(after_in_child=_forget_all)
