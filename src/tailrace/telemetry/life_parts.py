"""Cuts a request's life into parts that follow one another without a gap."""

from collections.abc import Iterator
from typing import NamedTuple

from tailrace.telemetry.lives import RequestLife
from tailrace.types import Beginning

__all__ = ["FIRST_TOKEN_PARTS", "LifePart", "parts_of"]

FIRST_TOKEN_PARTS = (
    "accept",  # its body was read and decoded
    "tokenise",  # templates and grammars are in it
    "to_engine",
    "queue",  # without what it waited for levels
    "fetch",  # waited for levels below the engine
    "prefill",  # once for each step that computed some of its prompt
    "between",  # steps that computed none of it
    "from_engine",
    "text",
    "write",
)
"""All that may come before the first piece of an answer is with the socket, in this order; behind it is `decode`."""


class LifePart(NamedTuple):
    """In monotonic seconds. `num_tokens` of a prefill: what was computed of the prompt."""

    name: str
    start_s: float
    end_s: float
    num_tokens: int = 0


_Cut = tuple[str, float | None, int]  # what ends then; None: it has not


def parts_of(life: RequestLife) -> list[LifePart]:
    """From its head to its end, or as far as it has come; where it ended early, its last part ends there.

    Each begins where the one before it ends. Parts that took no time are left out.
    """
    parts, start_s = [], life.accepted_s
    for name, cut_s, num_tokens in _cuts(life):
        end_s = life.ended_s if cut_s is None else cut_s
        if end_s is not None and end_s > start_s:
            parts.append(LifePart(name, start_s, end_s, num_tokens))
            start_s = end_s
        if cut_s is None:
            break
    return parts


def _cuts(life: RequestLife) -> Iterator[_Cut]:
    yield "accept", life.parsed_s, 0
    yield "tokenise", life.submitted_s, 0
    if life.beginning is None:
        yield "queue", None, 0
        return
    yield from _engine_cuts(life.beginning)
    yield "from_engine", life.received_s, 0
    yield "text", life.text_s, 0
    yield "write", life.written_s, 0
    yield "decode", life.ended_s, 0


def _engine_cuts(beginning: Beginning) -> Iterator[_Cut]:
    yield "to_engine", beginning.taken_s, 0
    yield "queue", max(beginning.started_s - beginning.fetch_s, beginning.taken_s), 0
    yield "fetch", beginning.started_s, 0
    for chunk in beginning.chunks:
        yield "between", chunk.planned_s, 0
        yield "prefill", chunk.computed_s, chunk.num_tokens
    yield "between", beginning.computed_s, 0
