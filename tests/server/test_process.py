"""The server as a process: how it starts, what stops it, and what it says when it cannot go on."""

import json
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tailrace.weights.default_model import default_model_path
from tests.server.process import ServerProcess, free_port, serving

LATE = "tests.server.late_worker"


def run_serve(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A serve command that is expected to end by itself."""
    command = [sys.executable, "-m", "tailrace.cli", "serve", "--kv-host", "0", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_taken_port_is_one_line_that_says_what_to_do() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ended = run_serve("--port", str(taken.getsockname()[1]))

    assert ended.returncode == 1
    assert "is taken by another program" in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("share", [0.001, 0.5, 0.999])
def test_a_truncated_model_is_one_line_that_names_the_file(tmp_path: Path, share: float) -> None:
    whole = default_model_path().read_bytes()
    model = tmp_path / "cut.gguf"
    model.write_bytes(whole[: int(len(whole) * share)])

    ended = run_serve(str(model), "--port", str(free_port()))

    assert ended.returncode == 1
    assert "cut.gguf" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_too_little_kv_memory_ends_the_server_with_what_to_change() -> None:
    ended = run_serve("--kv-memory", "1KiB", "--port", str(free_port()))

    assert ended.returncode == 1
    assert "raise --kv-memory" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopping_server_finishes_the_stream_it_began(number: signal.Signals) -> None:
    with serving("--max-model-tokens", "512", "--kv-memory", "64MiB") as server:
        body = {"prompt": "Go on:", "max_tokens": 200, "ignore_eos": True, "stream": True}
        request = urllib.request.Request(
            server.url + "/v1/completions", json.dumps(body).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as reply:
            first = reply.readline()
            stopping = threading.Thread(target=server.stop, args=[number])
            stopping.start()
            rest = reply.read().decode()
        stopping.join()

    assert first.startswith(b"data: ")
    assert '"finish_reason":"length"' in rest
    assert rest.endswith("data: [DONE]\n\n")
    assert server.process.returncode == 0


def ask(url: str, **fields: object) -> urllib.request.Request:
    body = {"prompt": "Go on:", "ignore_eos": True, **fields}
    return urllib.request.Request(
        url + "/v1/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )


def refusal_of(request: urllib.request.Request) -> tuple[int, str | None, str]:
    """Status, time to come back, and code of an answer that is an error."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    with refused.value as reply:
        return reply.code, reply.headers["retry-after"], json.load(reply)["error"]["code"]


def test_what_outlasts_a_drain_is_told_so_and_so_is_who_comes_meanwhile() -> None:
    """One stream runs and goes on for long, one request is queued behind it."""
    options = ("--max-model-tokens", "8192", "--kv-memory", "256MiB", "--max-running", "1", "--drain-timeout", "5")
    with serving(*options) as server, ThreadPoolExecutor() as clients:
        with urllib.request.urlopen(ask(server.url, max_tokens=8000, stream=True), timeout=60) as stream:
            first = stream.readline()
            queued = clients.submit(refusal_of, ask(server.url, max_tokens=8000))
            server.wait_for_metric("tailrace_requests_waiting", 1)
            server.process.send_signal(signal.SIGTERM)
            server.wait_until("/ready", 503)
            late = refusal_of(ask(server.url, max_tokens=1))
            rest = stream.read().decode()
        server.process.wait(timeout=30)

    assert first.startswith(b"data: ")
    *_, last = rest.strip().split("\n\n")
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "unavailable"
    assert queued.result() == (503, "1", "unavailable")
    status, retry_after, code = late
    assert (status, code) == (503, "unavailable")
    assert retry_after is not None
    assert 1 <= int(retry_after) <= 5
    assert server.process.returncode == 0


def test_the_served_name_is_what_clients_ask_for() -> None:
    with serving("--name", "mill", "--max-model-tokens", "512", "--kv-memory", "64MiB") as server:
        _, models = server.get("/v1/models")

    assert json.loads(models)["data"][0]["id"] == "mill"


def test_a_server_with_little_kv_memory_tells_its_true_bound_everywhere() -> None:
    with serving("tiny-deepseek", "--kv-memory", "100KiB") as server:
        _, models = server.get("/v1/models")
        body = {"prompt": "Go on:", "max_tokens": 200}
        request = urllib.request.Request(
            server.url + "/v1/completions", json.dumps(body).encode(), {"content-type": "application/json"}
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=30)
        with refused.value as reply:
            said = reply.read().decode()
        server.stop()
        announced = server.output()

    assert {model["max_model_len"] for model in json.loads(models)["data"]} == {128}
    assert "the server's KV memory (see --kv-memory) of 128 tokens" in said
    assert announced.startswith("KV memory holds 128 tokens at once")


def test_the_collector_visits_everything_before_the_first_answer_and_not_again() -> None:
    body = json.dumps({"prompt": "Go on:", "max_tokens": 200, "ignore_eos": True}).encode()
    with serving("--max-model-tokens", "512", "--kv-memory", "64MiB") as server:
        before = _num_full_collections(server)
        request = urllib.request.Request(server.url + "/v1/completions", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as reply:
            reply.read()
        after = _num_full_collections(server)

    assert 1 <= before == after


def _num_full_collections(server: ServerProcess) -> float:
    _, text = server.get("/metrics")
    (line,) = [line for line in text.splitlines() if line.startswith('tailrace_gc_pause_seconds_count{generation="2"}')]
    return float(line.rsplit(" ", 1)[1])


def test_the_server_is_ready_once_whichever_process_answers_is() -> None:
    """A client's next connection may be taken by another API process than the one that it asked."""
    with serving("--max-model-tokens", "512", "--kv-memory", "64MiB", "--api-workers", "2", program=LATE) as server:
        assert [server.get("/v1/models")[0] for _ in range(40)] == [200] * 40
        assert [server.get("/ready")[0] for _ in range(40)] == [200] * 40
        assert [tokenize(server) for _ in range(40)] == [200] * 40


def tokenize(server: ServerProcess) -> int:
    body = json.dumps({"prompt": "The sea"}).encode()
    request = urllib.request.Request(server.url + "/tokenize", body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
