import subprocess
import sys
from collections.abc import Callable

import pytest

from tailrace.config import OtlpConfig
from tailrace.errors import SetupError
from tailrace.serving import traces
from tailrace.serving.traces import check_otlp, sending_spans
from tailrace.telemetry.lives import RequestLife
from tailrace.telemetry.prometheus import Metrics
from tests.support.otlp import collecting
from tests.unit.telemetry.test_spans import life_of_a_chat


def metrics() -> Metrics:
    return Metrics(model_name="tiny", version="0")


def told(end: Callable[[RequestLife], None]) -> None:
    end(life_of_a_chat())


def test_within_it_each_life_that_ends_is_told_to_the_collector() -> None:
    counting = metrics()
    with collecting() as collector, sending_spans(OtlpConfig(collector.url), counting, "tiny"):
        told(counting.lives.end)
        told(counting.lives.end)
    assert [span.name for span in collector.spans].count("chat tiny") == 2
    exposition, _ = counting.render("text/plain")
    assert b"tailrace_spans_exported_total 16.0" in exposition
    assert b'tailrace_spans_dropped_total{reason="full"} 0.0' in exposition


def test_who_wants_no_traces_loads_nothing() -> None:
    program = (
        "import sys, tailrace.commands.serve, tailrace.serving.api\n"
        "from tailrace.serving.traces import sending_spans\n"
        "with sending_spans(None, None, ''): pass\n"
        "assert not [name for name in sys.modules if name.partition('.')[0] in ('opentelemetry', 'requests')]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize(
    "url", ["localhost:4318", "grpc://localhost:4317", "http://", "", "http:///v1/traces", "http://[::1"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(SetupError, match="is no address of a collector: write http://localhost:4318"):
        check_otlp(OtlpConfig(url))


@pytest.mark.parametrize(
    "url", ["http://localhost:4318", "https://otel.example.com/tenant/v1/traces", "http://[::1]:9"]
)
def test_an_address_is_taken(url: str) -> None:
    check_otlp(OtlpConfig(url))


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "_WANTED", ("no_such_library.trace",))
    with pytest.raises(SetupError, match=r"--otlp needs OpenTelemetry: pip install 'tailrace\[otel\]'"):
        check_otlp(OtlpConfig("http://localhost:4318"))
