"""One request of a client in shared memory, from its ask to the last word of its answer."""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from tailrace.errors import EngineError, Overloaded, RequestError, RingDamaged, TailraceError, UnavailableError
from tailrace.frontends.faults import fault_message, log_fault
from tailrace.frontends.following import following, note_asked, note_trace, note_usage
from tailrace.frontends.gaps import GapClock
from tailrace.frontends.renaming import renamed
from tailrace.frontends.shm.asks import decode_ask, field_name
from tailrace.frontends.shm.wire import Down, encode_delta, encode_failure, encode_usage, packed
from tailrace.frontends.shm.writer import LaneWriter, Stalled
from tailrace.frontends.trace_context import TraceContext
from tailrace.service.api import GenerationStream, Service, Usage
from tailrace.telemetry.answers import AnswerCounts
from tailrace.telemetry.lives import RequestLife
from tailrace.telemetry.log_context import LogContext, log_context

__all__ = ["Answer", "Outcome"]

_log = logging.getLogger(__name__)

Outcome = str
"""How an answer ended, for those who count: complete, cancelled, stalled, refused, unavailable or failed."""


class _LastWord(NamedTuple):
    kind: Down
    content: bytes
    outcome: Outcome


class Answer:
    """Is computed from `start` on. `on_last` is called when the client may have the last word, which frees its lane."""

    def __init__(
        self,
        service: Service,
        counts: AnswerCounts,
        writer: LaneWriter,
        on_last: Callable[[Outcome], None],
        trace: TraceContext | None = None,
    ) -> None:
        self._service = service
        self._counts = counts
        self._writer = writer
        self._on_last = on_last
        self._trace = trace
        self._life = RequestLife(
            request_id=f"shm-{secrets.token_hex(12)}",
            endpoint="shm",
            class_name="",
            accepted_s=time.monotonic(),
        )
        note_trace(self._life, trace)
        self._usage = Usage(0, 0, 0)
        self._ended_by: _LastWord | None = None
        self._has_begun = self._is_saying_last = False
        self._task: asyncio.Task[None] | None = None

    def start(self, content: memoryview) -> asyncio.Task[None]:
        """The task raises RingDamaged; when it is cancelled by others than this object, nobody wants to know more."""
        self._task = asyncio.create_task(self._run(content))
        return self._task

    def cancel(self) -> None:
        """The client has enough of it, and wants to know no more than what it was."""
        self._end(_LastWord(Down.END, b"", "cancelled"))

    def end(self, error: TailraceError) -> None:
        """The server ends it."""
        self._end(_failure(error, "unavailable"))

    def watch(self) -> None:
        self._writer.watch()

    def _end(self, word: _LastWord) -> None:
        assert self._task is not None, "what has not started cannot end"
        if self._ended_by is None and not self._is_saying_last:
            self._ended_by = word
            if self._has_begun:  # else it would end without a word
                self._task.cancel()

    async def _run(self, content: memoryview) -> None:
        self._has_begun = True
        log_context.set(LogContext(self._life.request_id, "" if self._trace is None else self._trace.trace_id))
        kind, last, outcome = self._ended_by or await self._answer(content)
        self._is_saying_last = True
        if kind is Down.END:
            last = encode_usage(self._usage)
        await self._writer.write_last(kind, last, partial(self._on_last, outcome))

    async def _answer(self, content: memoryview) -> _LastWord:
        try:
            with following(self._counts.lives, self._life):
                await self._stream(content)
            return _LastWord(Down.END, b"", "complete")
        except asyncio.CancelledError:
            if self._ended_by is None:
                raise
            return self._ended_by
        except Stalled:
            message = "this answer was given up, since nothing of it was read for too long"
            return _failure(RequestError(message, code="stalled"), "stalled")
        except RingDamaged:
            raise
        except TailraceError as error:
            if isinstance(error, Overloaded) and self._life.class_name:
                self._counts.refuse(self._life.class_name, error.reason)
            return _failure(error, _outcome_of(error))
        except Exception as error:
            request_id = self._life.request_id
            log_fault(_log, request_id, error)
            return _failure(EngineError(fault_message(request_id)), "failed")

    async def _stream(self, content: memoryview) -> None:
        life = self._life
        with renamed(field_name):
            generation = decode_ask(content, life.request_id, self._service.classes)
            generation = replace(generation, trace=life.trace, milestones=life)
            life.class_name, life.parsed_s = generation.standing.class_name, time.monotonic()
            note_asked(life, generation, generation.n, is_streamed=True)
            stream = await self._service.start(generation)
        try:
            life.num_prompt_tokens = stream.prompt_tokens
            clock = GapClock(self._counts, life, generation.n)
            await self._pass_on(stream, clock)
        finally:
            await stream.aclose()
            self._usage = stream.usage
            note_usage(life, self._usage)

    async def _pass_on(self, stream: GenerationStream, clock: GapClock) -> None:
        write = self._writer.write
        await write(Down.BEGUN, packed(stream.prompt_tokens))
        while deltas := await stream.take():
            for delta in deltas:
                clock.tick(delta)
                await write(Down.DELTA, encode_delta(delta))
            clock.wrote(deltas)


def _failure(error: TailraceError, outcome: Outcome) -> _LastWord:
    return _LastWord(Down.FAILED, encode_failure(error), outcome)


def _outcome_of(error: TailraceError) -> Outcome:
    if isinstance(error, RequestError):
        return "refused"
    return "unavailable" if isinstance(error, UnavailableError) else "failed"
