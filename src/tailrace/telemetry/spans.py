"""A request's life as the spans of a trace, in the words of OpenTelemetry's conventions for generative AI.

Knows no library and nobody who takes them. What a client or the model said is in none of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tailrace.telemetry.lives import RequestLife
from tailrace.types import Beginning, SamplingParams

__all__ = ["Span", "SpanEvent", "request_span"]

Value = str | int | float | bool | tuple[str, ...]
Attributes = Mapping[str, Value]

_OPERATIONS = {"chat": "chat", "message": "chat", "response": "chat"}  # of endpoints; others: text_completion
_PROVIDER = "tailrace"
_NOTHING: Attributes = {}
_OUR_FAULTS = ("cancelled", "internal_error", "unavailable")  # of the kinds of errors; others are of who asked


class SpanEvent(NamedTuple):
    """Something that happened within a span."""

    name: str
    at_s: float


class Span(NamedTuple):
    """From start to end, in monotonic seconds; its children lie within."""

    name: str
    start_s: float
    end_s: float
    attributes: Attributes = _NOTHING
    children: Sequence["Span"] = ()
    events: Sequence[SpanEvent] = ()
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
    events = [SpanEvent("tailrace.engine.replaced", at_s) for at_s in life.resumed_s if at_s <= end_s]
    children = list(_Parts(life.accepted_s, end_s).of(life))
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
    if life.num_reasoning_tokens:
        attributes["gen_ai.usage.reasoning.output_tokens"] = life.num_reasoning_tokens
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


class _Parts:
    """Makes spans that reach no further than the request: its client may be gone before the engine is told."""

    def __init__(self, start_s: float, end_s: float) -> None:
        self._start_s = start_s
        self._end_s = end_s

    def of(self, life: RequestLife) -> Iterator[Span]:
        """In the order in which they begin; those that were never reached are left out."""
        if life.submitted_s is not None:
            yield self._span("prepare", self._start_s, life.submitted_s)
            yield from self._of_engine(life.submitted_s, life.beginning)
        if life.received_s is not None:
            marks = ("first_text", life.text_s), ("first_write", life.written_s)
            events = [SpanEvent(name, self._clamped(at_s)) for name, at_s in marks if at_s is not None]
            yield self._span("stream", life.received_s, self._end_s)._replace(events=events)

    def _of_engine(self, submitted_s: float, beginning: Beginning | None) -> Iterator[Span]:
        if beginning is None:
            yield self._span("queue", submitted_s, self._end_s)
            return
        started_s = max(beginning.started_s, submitted_s)
        yield self._span("queue", submitted_s, started_s)
        if beginning.fetch_s > 0.0:  # how long is known, and when is not: at the latest just before it started
            yield self._span("fetch", max(started_s - beginning.fetch_s, submitted_s), started_s)
        for chunk in beginning.chunks:
            yield self._span("prefill", chunk.planned_s, chunk.computed_s, {"tailrace.tokens": chunk.num_tokens})
        preempted = {"tailrace.preemptions": beginning.num_preemptions} if beginning.num_preemptions else _NOTHING
        yield self._span("decode", beginning.computed_s, self._end_s, preempted)

    def _span(self, name: str, start_s: float, end_s: float, attributes: Attributes = _NOTHING) -> Span:
        first_s = self._clamped(start_s)
        return Span(name, first_s, max(first_s, self._clamped(end_s)), attributes)

    def _clamped(self, at_s: float) -> float:
        return min(max(at_s, self._start_s), self._end_s)
