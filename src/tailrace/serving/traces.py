"""Where an API process sends the spans of its requests, if anybody wants them: an extra, and not loaded otherwise."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from tailrace.config import OtlpConfig
from tailrace.errors import SetupError
from tailrace.http_url import split_http_url
from tailrace.telemetry.prometheus import Metrics
from tailrace.version import __version__

__all__ = ["check_otlp", "sending_spans"]

_WANTED = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def check_otlp(config: OtlpConfig) -> None:
    """Before anything slow begins, and without loading anything. Raises SetupError."""
    if split_http_url(config.url) is None:
        raise SetupError(f"--otlp {config.url!r} is no address of a collector: write http://localhost:4318")
    if not all(map(_is_there, _WANTED)):
        raise SetupError("--otlp needs OpenTelemetry: pip install 'tailrace[otel]'")


@contextmanager
def sending_spans(config: OtlpConfig | None, metrics: Metrics, model: str) -> Iterator[None]:
    """Within this, what has ended is told to the collector, by a thread. To be entered after the fork."""
    if config is None:
        yield
        return
    from tailrace.telemetry.otel import OtlpSpans  # noqa: PLC0415  (an extra, with threads: not before the fork)

    spans = OtlpSpans(config.url, model=model, version=__version__, counts=metrics.spans)
    metrics.lives.on_end = spans.tell
    try:
        yield
    finally:
        spans.close()


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of a package above it
        return False
