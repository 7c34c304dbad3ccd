"""Follows a request from its head to its end, however it ends, for whoever wants to know what became of it."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tailrace.errors import RequestError, UnavailableError
from tailrace.frontends.client_gone import ClientGone
from tailrace.service.api import Usage
from tailrace.telemetry.lives import LifeLog, RequestLife
from tailrace.types import FinishReason

__all__ = ["following", "note_usage"]


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


def note_usage(life: RequestLife, usage: Usage) -> None:
    """So many tokens it has taken so far."""
    life.num_prompt_tokens = usage.prompt_tokens
    life.num_output_tokens = usage.completion_tokens
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
