"""Who is turned away by a real server, why, and when to come back."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection

import pytest

from tests.server.process import ServerProcess, serving


@pytest.fixture(scope="module")
def full() -> Iterator[ServerProcess]:
    """A server with one place, which a stream keeps until the tests are over, and room for two to wait."""
    options = ("--max-model-tokens", "8192", "--kv-memory", "256MiB", "--drain-timeout", "0")
    with (
        serving(*options, "--max-running", "1", "--max-queued", "2", "--max-tenant-requests", "2") as server,
        urllib.request.urlopen(ask(server, tenant="long", max_tokens=8000, stream=True), timeout=60) as stream,
    ):
        stream.readline()
        yield server


def ask(
    server: ServerProcess, *, tenant: str, timeout_ms: int | None = None, **fields: object
) -> urllib.request.Request:
    headers = {"content-type": "application/json", "x-llm-d-inference-fairness-id": tenant}
    if timeout_ms is not None:
        headers["x-request-timeout-ms"] = str(timeout_ms)
    body = {"prompt": "Go on:", "max_tokens": 8, "ignore_eos": True, **fields}
    return urllib.request.Request(server.url + "/v1/completions", json.dumps(body).encode(), headers)


def assert_turned_away(request: urllib.request.Request, reason: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    with refused.value as reply:
        error = json.load(reply)["error"]
    assert reply.code == 429
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["x-llm-d-request-dropped-reason"] == reason
    assert 1 <= int(reply.headers["retry-after"]) <= 60
    assert (error["type"], error["code"]) == ("rate_limit_error", reason)


@pytest.mark.parametrize("fields", [{}, {"stream": True}, {"n": 2}, {"prompt": ["Go", "On"], "stream": True}])
def test_who_has_waited_for_as_long_as_it_said_is_turned_away(full: ServerProcess, fields: dict[str, object]) -> None:
    assert_turned_away(ask(full, tenant="brief", timeout_ms=50, **fields), "queue_timeout")
    full.wait_for_less("tailrace_requests_waiting", 1)


def test_a_tenant_with_too_many_requests_and_whoever_finds_the_queue_full_are_turned_away(full: ServerProcess) -> None:
    with ExitStack() as stack:
        for _ in range(2):
            waiting = stack.enter_context(closing(HTTPConnection(full.url.removeprefix("http://"), timeout=60)))
            request = ask(full, tenant="waiting")
            waiting.request("POST", "/v1/completions", request.data, request.headers)
        full.wait_for_metric("tailrace_requests_waiting", 2)
        assert_turned_away(ask(full, tenant="waiting"), "tenant_limit")
        assert_turned_away(ask(full, tenant="other"), "queue_full")
    full.wait_for_less("tailrace_requests_waiting", 1)


def test_they_are_counted(full: ServerProcess) -> None:
    assert_turned_away(ask(full, tenant="brief", timeout_ms=50), "queue_timeout")
    _, text = full.get("/metrics")
    assert 'tailrace_requests_refused_total{class="silver",reason="queue_timeout"}' in text
