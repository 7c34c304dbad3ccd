"""A request's life as the spans of a trace, in the words of OpenTelemetry's conventions for generative AI.

Knows no library and nobody who takes them. What a client or the model said is in none of them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tailrace.telemetry.lives import RequestLife
from tailrace.types import Beginning, SamplingParams

__all__ = ["Span", "SpanEvent", "request_span"]

Value = str | int | float | bool | tuple[str, ...]

_OPERATIONS = {"chat": "chat", "message": "chat", "response": "chat"}  # of endpoints; others: text_completion
_PROVIDER = "tailrace"
_OUR_FAULTS = ("cancelled", "internal_error", "unavailable")  # of the kinds of errors; others are of who asked


class SpanEvent(NamedTuple):
    """Something that happened within a span."""

    name: str
    at_s: float


@dataclass(frozen=True, slots=True)
class Span:
    """From start to end, in monotonic seconds; its children lie within."""

    name: str
    start_s: float
    end_s: float
    attributes: Mapping[str, Value] = field(default_factory=dict)
    children: tuple["Span", ...] = ()
    events: tuple[SpanEvent, ...] = ()
    is_error: bool = False  # by a fault of the server


def request_span(life: RequestLife, model: str) -> Span:
    """The whole of a life that has ended, with what it was made of below it."""
    operation = _OPERATIONS.get(life.endpoint, "text_completion")
    end_s = life.accepted_s if life.ended_s is None else max(life.ended_s, life.accepted_s)
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": _PROVIDER,
        "gen_ai.request.model": model,
        "gen_ai.response.model": model,
        "tailrace.request.id": life.request_id,
        "tailrace.endpoint": life.endpoint,
        **_asked(life),
        **_answered(life),
    }
    events = tuple(SpanEvent("tailrace.engine.replaced", at_s) for at_s in life.resumed_s if at_s <= end_s)
    children = tuple(_within(each, life.accepted_s, end_s) for each in _parts(life, end_s))
    return Span(
        f"{operation} {model}", life.accepted_s, end_s, attributes, children, events, is_error=life.error in _OUR_FAULTS
    )


def _asked(life: RequestLife) -> dict[str, Value]:
    attributes: dict[str, Value] = {"gen_ai.request.stream": life.is_streamed}
    if life.class_name:
        attributes["tailrace.class"] = life.class_name
    if life.num_choices != 1:
        attributes["gen_ai.request.choice.count"] = life.num_choices
    if life.seed is not None:
        attributes["gen_ai.request.seed"] = life.seed
    if life.sampling is not None:
        attributes |= _sampling(life.sampling)
    return attributes


def _sampling(sampling: SamplingParams) -> dict[str, Value]:
    """What is 0 for `nothing was said` is left out."""
    attributes: dict[str, Value] = {
        "gen_ai.request.temperature": sampling.temperature,
        "gen_ai.request.top_p": sampling.top_p,
    }
    others = {
        "max_tokens": sampling.max_tokens,
        "top_k": sampling.top_k,
        "frequency_penalty": sampling.frequency_penalty,
        "presence_penalty": sampling.presence_penalty,
    }
    return attributes | {f"gen_ai.request.{name}": value for name, value in others.items() if value}


def _answered(life: RequestLife) -> dict[str, Value]:
    attributes: dict[str, Value] = {
        "gen_ai.usage.input_tokens": life.num_prompt_tokens,
        "gen_ai.usage.output_tokens": life.num_output_tokens,
        "gen_ai.usage.cache_read.input_tokens": sum(life.found.values()),
    }
    attributes |= {f"tailrace.cache.{level}.tokens": count for level, count in life.found.items()}
    if life.miss_reason is not None:
        attributes["tailrace.cache.miss_reason"] = life.miss_reason
    if life.finish_reason is not None:
        attributes["gen_ai.response.finish_reasons"] = (life.finish_reason,)
    if life.error is not None:
        attributes["error.type"] = life.error
    if life.answer_id:
        attributes["gen_ai.response.id"] = life.answer_id
    if life.status is not None:
        attributes["http.response.status_code"] = life.status
    if life.written_s is not None:
        attributes["gen_ai.response.time_to_first_chunk"] = life.written_s - life.accepted_s
    return attributes


def _parts(life: RequestLife, end_s: float) -> Iterator[Span]:
    """In the order in which they begin; those that were never reached are left out."""
    if life.submitted_s is not None:
        yield Span("prepare", life.accepted_s, life.submitted_s)
        yield from _engine_parts(life.submitted_s, life.beginning, end_s)
    if life.received_s is not None:
        marks = ("first_text", life.text_s), ("first_write", life.written_s)
        events = tuple(SpanEvent(name, at_s) for name, at_s in marks if at_s is not None)
        yield Span("stream", life.received_s, end_s, events=events)


def _engine_parts(submitted_s: float, beginning: Beginning | None, end_s: float) -> Iterator[Span]:
    if beginning is None:
        yield Span("queue", submitted_s, end_s)
        return
    started_s = max(beginning.started_s, submitted_s)
    yield Span("queue", submitted_s, started_s)
    if beginning.fetch_s > 0.0:  # how long is known, and when is not: at the latest just before it started
        yield Span("fetch", max(started_s - beginning.fetch_s, submitted_s), started_s)
    for chunk in beginning.chunks:
        yield Span("prefill", chunk.planned_s, chunk.computed_s, {"tailrace.tokens": chunk.num_tokens})
    preempted = {"tailrace.preemptions": beginning.num_preemptions} if beginning.num_preemptions else {}
    yield Span("decode", beginning.computed_s, end_s, preempted)


def _within(span: Span, start_s: float, end_s: float) -> Span:
    """The same, no further than its parent goes: a client may be gone before the engine is told."""
    first_s = min(max(span.start_s, start_s), end_s)
    last_s = min(max(span.end_s, first_s), end_s)
    events = tuple(SpanEvent(event.name, min(max(event.at_s, first_s), last_s)) for event in span.events)
    return Span(span.name, first_s, last_s, span.attributes, events=events)
