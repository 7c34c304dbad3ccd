"""A collector for tests: takes traces over OTLP with HTTP, on a free port, and keeps what it was sent."""

import gzip
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

__all__ = ["Collector", "Received", "collecting"]

TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Received:
    """A span as it came, with what the sender says of itself."""

    name: str
    trace_id: str
    span_id: str
    parent_span_id: str
    state: str
    kind: int
    status: int
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    events: list[tuple[str, int]]
    resource: dict[str, Any]


@dataclass
class Collector:
    """`answer` is the status of the next answers; while `gate` is not set it gives none."""

    url: str = ""
    answer: int = 200
    spans: list[Received] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        self.gate.wait(TIMEOUT_S)
        answer = self.answer
        if answer == 200:
            if headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            self.spans += _received(ExportTraceServiceRequest.FromString(body))
        self.headers.append(headers)
        self.paths.append(path)
        return answer

    def wait(self, is_there: Callable[[list[Received]], bool]) -> list[Received]:
        """All spans so far, once this holds of them."""
        self._until(lambda: is_there(list(self.spans)))
        return list(self.spans)

    def wait_for_batches(self, count: int) -> None:
        """Until so many have come, taken or not."""
        self._until(lambda: len(self.paths) >= count)

    def _until(self, is_there: Callable[[], bool]) -> None:
        ends_s = time.monotonic() + TIMEOUT_S
        while not is_there():
            assert time.monotonic() < ends_s, f"these came: {[span.name for span in self.spans]}"
            time.sleep(0.005)

    def wait_for_trace(self, trace_id: str) -> list[Received]:
        """The spans of a trace, once its request has ended."""
        spans = self.wait(lambda spans: any(span.trace_id == trace_id for span in spans))
        return [span for span in spans if span.trace_id == trace_id]


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()
    collector.gate.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.send_response(collector.take(self.path, headers, body))
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  (as its base has it)
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield collector
        finally:
            collector.gate.set()
            server.shutdown()
            thread.join()


def _received(request: ExportTraceServiceRequest) -> Iterator[Received]:
    for group in request.resource_spans:
        resource = _attributes(group.resource.attributes)
        for scope in group.scope_spans:
            for span in scope.spans:
                yield _span(span, resource)


def _span(span: Span, resource: dict[str, Any]) -> Received:
    return Received(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.trace_state,
        span.kind,
        span.status.code,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        _attributes(span.attributes),
        [(event.name, event.time_unix_nano) for event in span.events],
        resource,
    )


def _attributes(pairs: Sequence[KeyValue]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    assert kind is not None
    return [_value(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)
