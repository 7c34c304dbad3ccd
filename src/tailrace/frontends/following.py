"""Follows a request from its head to its end, however it ends, for whoever wants to know what became of it."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tailrace.errors import RequestError, UnavailableError
from tailrace.frontends.client_gone import ClientGone
from tailrace.frontends.trace_context import TraceContext
from tailrace.service.api import Generation, Usage
from tailrace.telemetry.lives import LifeLog, RequestLife
from tailrace.types import FinishReason

__all__ = ["following", "note_asked", "note_trace", "note_usage"]


@contextmanager
def following(lives: LifeLog, life: RequestLife) -> Iterator[None]:
    """Within this the request is answered. What is raised is how it ended."""
    lives.begin(life)
    try:
        yield
    except BaseException as error:
        is_aborted = isinstance(error, ClientGone | asyncio.CancelledError)
        life.error = _code_of(error)
        life.finish_reason = life.finish_reason or (FinishReason.ABORT if is_aborted else FinishReason.ERROR)
        raise
    finally:
        life.ended_s = time.monotonic()
        lives.end(life)


def note_trace(life: RequestLife, trace: TraceContext | None) -> None:
    """It is answered in this span; None: nobody traces it."""
    if trace is not None:
        life.trace, life.parent_span_id, life.trace_state = trace.traceparent, trace.parent_span_id, trace.state


def note_asked(life: RequestLife, generation: Generation, num_choices: int, *, is_streamed: bool) -> None:
    """What its client wants, of all that is no content."""
    life.sampling, life.seed = generation.sampling, generation.seed
    life.num_choices, life.is_streamed = num_choices, is_streamed


def note_usage(life: RequestLife, usage: Usage) -> None:
    """So many tokens it has taken so far."""
    life.num_prompt_tokens = usage.prompt_tokens
    life.num_output_tokens = usage.completion_tokens
    life.num_reasoning_tokens = usage.reasoning_tokens
    life.found = {level.value: count for level, count in usage.found}
    life.miss_reason = None if usage.miss_reason is None else usage.miss_reason.value


def _code_of(error: BaseException) -> str:
    """One of few words, none of which a client has chosen."""
    match error:
        case ClientGone():
            return "client_gone"
        case asyncio.CancelledError():
            return "cancelled"
        case UnavailableError():
            return "unavailable"
        case RequestError(code=str(code)):
            return code
        case _:
            return "internal_error"
