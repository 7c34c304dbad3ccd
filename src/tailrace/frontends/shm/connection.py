"""One client in shared memory: takes its requests from its segment, and sees at once when it is gone."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from tailrace.errors import RingDamaged, TailraceError
from tailrace.frontends.shm.answer import Answer, Outcome
from tailrace.frontends.shm.config import ShmConfig
from tailrace.frontends.shm.layout import NUM_LANES, Segment
from tailrace.frontends.shm.wire import Up
from tailrace.frontends.shm.writer import LaneWriter
from tailrace.service.api import Service
from tailrace.telemetry.shm import ShmMetrics

__all__ = ["Connection", "Pipes"]

_MOST_AT_ONCE = 32  # messages of one client, before others have their turn
_PIPE_BYTES = 4096


class Pipes(NamedTuple):
    """Descriptors of the server's ends, which never block."""

    up: int
    down: int


class _RulesBroken(Exception):
    """What the client sent is nothing that a client sends."""


class Connection:
    """Lives until the client is gone, breaks the rules, or `close`; then all its answers end, and `on_end` is called.

    What it holds is bounded by the lanes.
    """

    def __init__(
        self,
        segment: Segment,
        pipes: Pipes,
        service: Service,
        *,
        config: ShmConfig,
        metrics: ShmMetrics,
        on_end: Callable[["Connection"], None],
    ) -> None:
        self._segment = segment
        self._pipes = pipes
        self._service = service
        self._config = config
        self._metrics = metrics
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._answers: dict[int, Answer] = {}  # by lane
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_telling = False
        self._is_closed = False
        self._loop.add_reader(pipes.up, self._on_bell)

    @property
    def tasks(self) -> frozenset[asyncio.Task[None]]:
        """Of its answers; they end soon after the connection does."""
        return frozenset(self._tasks)

    def end_answers(self, error: TailraceError) -> None:
        """Tell the client that each is at its end, and why."""
        for answer in tuple(self._answers.values()):
            answer.end(error)

    def close(self) -> None:
        """Harmless when it is closed already."""
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._pipes.up)
        for task in self._tasks:
            task.cancel()
        for fd in self._pipes:
            os.close(fd)
        self._on_end(self)

    def _on_bell(self) -> None:
        try:
            is_gone = not os.read(self._pipes.up, _PIPE_BYTES)
        except BlockingIOError:
            return
        if is_gone:
            self.close()
        else:
            self._take()

    def _take(self) -> None:
        """Some of what the client has sent; the rest when others have had their turn."""
        if self._is_closed:
            return
        try:
            for _ in range(_MOST_AT_ONCE):
                message = self._segment.asks.receive()
                if message is None:
                    return
                self._act(message[0], memoryview(message[2]))
        except (RingDamaged, _RulesBroken):
            self._break_off()
        else:
            self._loop.call_soon(self._take)

    def _act(self, kind: int, content: memoryview) -> None:
        lane = content[0] if content else NUM_LANES
        if lane >= NUM_LANES:
            raise _RulesBroken
        answer = self._answers.get(lane)
        if kind == Up.ASK:
            if answer is not None:
                raise _RulesBroken
            self._begin(lane, content[1:])
        elif kind == Up.CANCEL:
            if answer is not None:
                answer.cancel()
        elif kind == Up.WATCH:
            if answer is not None:
                answer.watch()
            else:  # it has ended since; whether its reader looked before or after, nobody knows
                self._tell()
        else:
            raise _RulesBroken

    def _begin(self, lane: int, content: memoryview) -> None:
        writer = LaneWriter(self._segment.lane(lane), self._tell, self._config.stall_s)
        trace = self._config.tracing.begin(())
        answer = self._answers[lane] = Answer(
            self._service, self._metrics.answers, writer, partial(self._answered, lane), trace
        )
        task = answer.start(content)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)

    def _answered(self, lane: int, outcome: Outcome) -> None:
        del self._answers[lane]
        self._metrics.request_ended(outcome)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            self._metrics.request_ended("gone")
        elif isinstance(task.exception(), RingDamaged):
            self._break_off()

    def _break_off(self) -> None:
        if not self._is_closed:
            self._metrics.rules_broken()
            self.close()

    def _tell(self) -> None:
        """Say in the pipe that there is news: once for all lanes that have some after the same step."""
        if not self._is_telling:
            self._is_telling = True
            self._loop.call_soon(self._write_to_pipe)

    def _write_to_pipe(self) -> None:
        self._is_telling = False
        if not self._is_closed:
            with suppress(BlockingIOError, BrokenPipeError):  # full: the client has not looked at what there is
                os.write(self._pipes.down, b".")
