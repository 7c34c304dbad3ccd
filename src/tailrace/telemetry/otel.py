"""Sends the spans of requests to a collector, over OTLP with HTTP. The only module that knows OpenTelemetry's library.

A thread of the library's sends them, so make it in the process that answers, after the fork. Nothing waits for it: when
too many spans wait because the collector does not take them, those of the next requests are dropped, and counted.
"""

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from tailrace.telemetry.exemplars import sampled_trace_id
from tailrace.telemetry.lives import RequestLife
from tailrace.telemetry.span_counts import SpanCounts
from tailrace.telemetry.spans import Span, request_span

__all__ = ["OtlpSpans"]

logger = logging.getLogger(__name__)

_LIBRARY = logging.getLogger("opentelemetry")

_TRACES = "/v1/traces"
_MAX_WAITING = 4096  # spans
_MOST_AT_ONCE = 64  # to make bytes of them holds up the event loop
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_UNSET, _ERROR = Status(StatusCode.UNSET), Status(StatusCode.ERROR)
_NO_STATE = TraceState()
_LAST_WORDS_S = 2.0
_MAX_REASON_CHARS = 300


class OtlpSpans:
    """`tell` it of each life that has ended. `close` it at the end: what waits has a moment to be sent."""

    def __init__(
        self,
        url: str,
        *,
        model: str,
        version: str,
        counts: SpanCounts,
        max_waiting: int = _MAX_WAITING,
        variables: Mapping[str, str] = os.environ,
    ) -> None:
        """The variables are those of the OpenTelemetry standard; the library reads more of them by itself."""
        self._model = model
        self._counts = counts
        self._max_waiting = max_waiting
        self._num_told = 0
        self._complaints = _Complaints()
        self._exporter = _Told(OTLPSpanExporter(endpoint=_traces_url(url)), counts, self._complaints)
        self._processor = BatchSpanProcessor(
            self._exporter, max_queue_size=max_waiting, max_export_batch_size=min(max_waiting, _MOST_AT_ONCE)
        )
        self._make = _SpanMaker(_resource(version, variables), InstrumentationScope("tailrace", version))

    def tell(self, life: RequestLife) -> None:
        """Send its spans, if its trace is recorded; all of them or none."""
        if sampled_trace_id(life.trace) is None:
            return
        spans = self._make.spans(life, request_span(life, self._model))
        if self._num_told - self._exporter.num_done + len(spans) > self._max_waiting:
            self._counts.dropped(len(spans))
            return
        self._num_told += len(spans)
        for span in spans:
            self._processor.on_end(span)

    def close(self, timeout_s: float = _LAST_WORDS_S) -> None:
        """Send what waits, for at most so long."""
        closing = threading.Thread(target=self._processor.shutdown, name="tailrace-last-spans", daemon=True)
        closing.start()
        closing.join(timeout_s)
        self._complaints.close()


class _Complaints(logging.Handler):
    """Keeps the library's out of the log: it has several for each batch, for as long as there is no collector."""

    def __init__(self) -> None:
        super().__init__()
        self.first = ""  # of the batch that is being sent: those behind it tell less
        _LIBRARY.addHandler(self)
        _LIBRARY.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        self.first = self.first or record.getMessage()

    def close(self) -> None:
        _LIBRARY.removeHandler(self)
        _LIBRARY.propagate = True
        super().close()


class _Told(SpanExporter):
    """The exporter, which the library calls on a thread of its own, with what became of spans counted and said."""

    def __init__(self, exporter: SpanExporter, counts: SpanCounts, complaints: _Complaints) -> None:
        self._exporter = exporter
        self._counts = counts
        self._complaints = complaints
        self._is_working = True
        self.num_done = 0  # spans that wait no longer

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._complaints.first = ""
        result = self._exporter.export(spans)
        is_taken = result is SpanExportResult.SUCCESS
        (self._counts.exported if is_taken else self._counts.refused)(len(spans))
        self.num_done += len(spans)
        if is_taken != self._is_working:
            self._is_working = is_taken
            self._say()
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def _say(self) -> None:
        if self._is_working:
            logger.warning("the collector of traces takes spans again")
            return
        reason = self._complaints.first[:_MAX_REASON_CHARS]
        logger.warning("the collector of traces takes no spans, which are dropped until it does: %s", reason)


class _SpanMaker:
    """Makes the library's spans of ours."""

    def __init__(
        self, resource: Resource, scope: InstrumentationScope, *, wall: Callable[[], float] = time.time
    ) -> None:
        self._resource = resource
        self._scope = scope
        # Once: so the spans of a process keep their distances, whatever becomes of the system's clock.
        self._epoch_ns = round((wall() - time.monotonic()) * 1e9)

    def spans(self, life: RequestLife, span: Span) -> list[ReadableSpan]:
        """Of a whole request, parents first."""
        _, trace_id, span_id, _ = life.trace.split("-")
        state = TraceState.from_header([life.trace_state]) if life.trace_state else _NO_STATE
        own = _context(int(trace_id, 16), int(span_id, 16), state)
        parent = (
            _context(own.trace_id, int(life.parent_span_id, 16), state, is_remote=True) if life.parent_span_id else None
        )
        return list(self._made(span, own, parent, SpanKind.SERVER))

    def _made(self, span: Span, own: SpanContext, parent: SpanContext | None, kind: SpanKind) -> Iterator[ReadableSpan]:
        yield ReadableSpan(
            span.name,
            own,
            parent,
            self._resource,
            span.attributes,
            [Event(event.name, timestamp=self._ns(event.at_s)) for event in span.events],
            kind=kind,
            status=_ERROR if span.is_error else _UNSET,
            start_time=self._ns(span.start_s),
            end_time=self._ns(span.end_s),
            instrumentation_scope=self._scope,
        )
        ids = os.urandom(8 * len(span.children))
        for place, child in enumerate(span.children):
            span_id = int.from_bytes(ids[8 * place : 8 * place + 8]) or 1  # 0 means none
            yield from self._made(child, _context(own.trace_id, span_id, own.trace_state), own, SpanKind.INTERNAL)

    def _ns(self, monotonic_s: float) -> int:
        return self._epoch_ns + round(monotonic_s * 1e9)


def _context(trace_id: int, span_id: int, state: TraceState, *, is_remote: bool = False) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote, _SAMPLED, state)


def _traces_url(url: str) -> str:
    """Where traces go, of a collector's address, which may name the path itself."""
    return url if urlsplit(url).path.strip("/") else url.rstrip("/") + _TRACES


def _resource(version: str, variables: Mapping[str, str]) -> Resource:
    """What OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say of this server, and what they do not."""
    given = Resource.create({"service.version": version, "service.instance.id": secrets.token_hex(8)})
    names = variables.get("OTEL_RESOURCE_ATTRIBUTES", "")
    if variables.get("OTEL_SERVICE_NAME") or "service.name=" in names:
        return given
    return given.merge(Resource({"service.name": "tailrace"}))
