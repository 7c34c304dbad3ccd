"""Processes of the server die, and nobody who reads an answer notices."""

import json
import random
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from tests.server.poisoned import BRIDGE_POISON, EARLY_POISON, POISON
from tests.server.process import ServerProcess, serving

OPTIONS = ("--max-model-tokens", "1024", "--kv-memory", "128MiB", "--max-restarts", "1000")
LONG_PROMPT = "The history of the water mill, told from the very beginning. " * 30
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "greedy": ("/v1/completions", {"prompt": "Go on:", "temperature": 0}),
    "seeded": ("/v1/completions", {"prompt": "Once upon a time", "temperature": 0.9, "seed": 5}),
    "two choices": ("/v1/completions", {"prompt": "Once upon a time", "temperature": 0.9, "seed": 6, "n": 2}),
    "logprobs": ("/v1/completions", {"prompt": "The sea", "temperature": 0, "logprobs": 3}),
    "penalties": ("/v1/completions", {"prompt": "A list:", "temperature": 0, "frequency_penalty": 0.7}),
    "chat": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "Tell me of rivers."}], "temperature": 0.7, "seed": 1},
    ),
    "stop": ("/v1/completions", {"prompt": "Count: one, two,", "temperature": 0, "stop": ["\n\n\n\n", "zzzz"]}),
    "long prompt": ("/v1/completions", {"prompt": LONG_PROMPT, "temperature": 0}),
}
TOKENS = 96

Answer = tuple[dict[int, str], dict[int, str], dict[str, int], int]


def stream(
    server: ServerProcess, name: str, on_frame: Callable[[int], None] = lambda count: None, tokens: int = TOKENS
) -> Answer:
    """Texts and finish reasons of the choices, usage, and the number of log probabilities."""
    path, fields = REQUESTS[name]
    body = {**fields, "max_tokens": tokens, "ignore_eos": True, "stream": True}
    body["stream_options"] = {"include_usage": True}
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), {"content-type": "application/json"})
    texts: dict[int, str] = {}
    reasons: dict[int, str] = {}
    usage: dict[str, Any] = {}
    num_logprobs = count = 0
    with opened(request) as reply:
        for line in reply:
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            frame = json.loads(line.removeprefix(b"data: "))
            assert "error" not in frame, frame
            usage = frame.get("usage") or usage
            for choice in frame["choices"]:
                delta = choice.get("text") or choice.get("delta", {}).get("content") or ""
                texts[choice["index"]] = texts.get(choice["index"], "") + delta
                if choice["finish_reason"] is not None:
                    reasons[choice["index"]] = choice["finish_reason"]
                if choice.get("logprobs"):
                    num_logprobs += len(choice["logprobs"]["token_logprobs"])
            count += 1
            on_frame(count)
    if not usage:
        raise ValueError("the stream was cut")
    counts = {field: usage[field] for field in ("prompt_tokens", "completion_tokens")}  # what was cached may differ
    return texts, reasons, counts, num_logprobs


def opened(request: urllib.request.Request) -> HTTPResponse:
    """The reply; a refusal says why."""
    try:
        reply: HTTPResponse = urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as error:
        with error:
            raise AssertionError(f"{error.code}: {error.read().decode()}") from None
    return reply


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with serving(*OPTIONS, "--api-workers", "2") as process:
        yield process


@pytest.fixture(scope="module")
def undisturbed(server: ServerProcess) -> dict[str, Answer]:
    return {name: stream(server, name) for name in REQUESTS}


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("after", [1, 17])
def test_an_answer_goes_on_behind_the_token_where_its_engine_died(
    server: ServerProcess, undisturbed: dict[str, Answer], name: str, after: int
) -> None:
    pids = []

    def kill(count: int) -> None:
        if count == after:
            pids.append(server.kill("engine"))

    assert stream(server, name, kill) == undisturbed[name]
    assert server.pid_of("engine") not in pids


def test_all_answers_go_on_when_the_engine_dies_again_and_again(
    server: ServerProcess, undisturbed: dict[str, Answer]
) -> None:
    """At random times: before first tokens, in prompts, in decoding."""
    times = random.Random(3)
    is_over = threading.Event()
    frames: list[int] = []

    def kill_again_and_again() -> None:
        seen = 0
        while not is_over.wait(times.uniform(0.5, 1.5)):
            if len(frames) < seen + len(REQUESTS):
                continue  # on a slow machine, too, each engine does some work
            seen = len(frames)
            server.kill("engine")
            server.wait_until("/ready", 200)

    with ThreadPoolExecutor(len(REQUESTS) + 1) as clients:
        killing = clients.submit(kill_again_and_again)
        running = {name: clients.submit(stream, server, name, frames.append) for name in REQUESTS}
        try:
            answers = {name: answer.result() for name, answer in running.items()}
        finally:
            is_over.set()
        killing.result()

    assert answers == undisturbed
    server.wait_until("/ready", 200)


def test_who_asks_while_there_is_no_engine_is_served_by_the_next(
    server: ServerProcess, undisturbed: dict[str, Answer]
) -> None:
    pid = server.kill("engine")
    assert stream(server, "greedy") == undisturbed["greedy"]
    assert server.pid_of("engine") != pid


@pytest.mark.parametrize("after", [0, 5])
def test_each_answer_has_one_way_to_its_first_token_whenever_its_engine_died(server: ServerProcess, after: int) -> None:
    ways = ("tailrace_first_tokens_total", "tailrace_first_token_part_seconds_total")
    before = [server.metric(name) for name in ways]
    started_s, moments_s = time.monotonic(), []

    def note(count: int) -> None:
        moments_s.append(time.monotonic())
        if count == after:
            server.kill("engine")

    if after == 0:
        server.kill("engine")
    stream(server, "greedy", note)
    num_ways, way_s = (server.metric(name) - value for name, value in zip(ways, before, strict=True))
    assert num_ways == 1
    assert 0.0 < way_s <= moments_s[0] - started_s  # as its reader saw it, with the connection on top


def test_what_lies_in_shared_memory_is_not_computed_again(tmp_path: Path, undisturbed: dict[str, Answer]) -> None:
    with serving(*OPTIONS, "--kv-host", "64MiB", "--kv-host-directory", str(tmp_path)) as server:

        def kill(count: int) -> None:
            if count == 40:
                server.wait_for_metric("tailrace_level_saved_blocks_total", 20)
                server.kill("engine")

        assert stream(server, "long prompt", kill) == undisturbed["long prompt"]
        assert server.metric("tailrace_level_fetched_blocks_total") >= 20


def test_an_engine_that_hangs_is_ended_and_its_requests_go_on(undisturbed: dict[str, Answer]) -> None:
    with serving(*OPTIONS, "--hang-timeout", "1") as server:

        def freeze(count: int) -> None:
            if count == 10:
                server.kill("engine", signal.SIGSTOP)

        assert stream(server, "seeded", freeze) == undisturbed["seeded"]
        server.stop()
        assert "the engine hangs" in server.output()


@pytest.mark.parametrize(("token_id", "end"), [(POISON, "SIGABRT"), (EARLY_POISON, "exit code 70")])
def test_a_request_that_kills_the_engine_twice_is_given_up_and_no_other(
    undisturbed: dict[str, Answer], token_id: int, end: str
) -> None:
    poison = json.dumps({"prompt": [1, token_id], "max_tokens": 4}).encode()
    names = ["greedy", "seeded", "two choices"]
    with serving(*OPTIONS, program="tests.server.poisoned") as server, ThreadPoolExecutor() as clients:
        are_running = threading.Barrier(len(names) + 1)

        def begin(count: int) -> None:
            if count == 5:
                are_running.wait(timeout=60)

        others = {name: clients.submit(stream, server, name, begin) for name in names}
        are_running.wait(timeout=60)
        request = urllib.request.Request(server.url + "/v1/completions", poison, {"content-type": "application/json"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=60)
        with refused.value as reply:
            status = reply.code
        answers = {name: answer.result() for name, answer in others.items()}
        server.wait_until("/ready", 200)
        server.stop()
        said = server.output()

    assert status == 500
    assert answers == {name: undisturbed[name] for name in names}
    assert said.count(f"the engine died ({end})") == 2
    assert said.count("is given up") == 1


def test_an_engine_that_can_take_no_more_commands_dies_and_its_requests_go_on(
    undisturbed: dict[str, Answer],
) -> None:
    poison = json.dumps({"prompt": [1, BRIDGE_POISON], "max_tokens": 4}).encode()
    with serving(*OPTIONS, program="tests.server.poisoned") as server:
        statuses = []

        def send_poison(count: int) -> None:
            if count == 5:
                url, kind = server.url + "/v1/completions", {"content-type": "application/json"}
                with opened(urllib.request.Request(url, poison, kind)) as reply:
                    statuses.append(reply.status)

        assert stream(server, "seeded", send_poison) == undisturbed["seeded"]
        server.stop()
        said = server.output()

    assert statuses == [200]
    assert "the engine died (exit code 70)" in said
    assert "the engine can take no more commands" in said
    assert "the command makes no sense" in said


def test_an_api_process_that_hangs_is_replaced(undisturbed: dict[str, Answer]) -> None:
    with serving(*OPTIONS, "--api-workers", "2", "--hang-timeout", "1") as server:
        pid = server.kill("api 0", signal.SIGSTOP)
        server.wait_for_another("api 0", pid)
        server.wait_until("/ready", 200)
        assert stream(server, "seeded") == undisturbed["seeded"]
        server.stop()
        assert "api 0 hangs, since it was stopped" in server.output()


def test_an_api_process_that_dies_takes_its_own_requests_with_it_and_no_others(
    server: ServerProcess, undisturbed: dict[str, Answer]
) -> None:
    """Of many streams, those of the other process go on; the dead one's are aborted, and it is started again."""
    killed: list[int] = []
    lock = threading.Lock()

    def kill(count: int) -> None:
        with lock:
            if count == 5 and not killed:
                killed.append(server.kill("api 0"))

    def attempt(_: int) -> Answer | None:
        try:
            return stream(server, "greedy", kill)
        except (OSError, ValueError):  # the connection was cut
            return None

    with ThreadPoolExecutor(12) as clients:
        answers = list(clients.map(attempt, range(12)))

    server.wait_for_another("api 0", killed[0])
    server.wait_for_less("tailrace_requests_running", 1)
    assert all(answer in (None, undisturbed["greedy"]) for answer in answers)
    assert undisturbed["greedy"] in answers
    assert stream(server, "greedy") == undisturbed["greedy"]


def test_no_counter_goes_back_when_a_process_dies(server: ServerProcess) -> None:
    names = ["tailrace_generation_tokens_total", "tailrace_http_requests_total", "tailrace_step_seconds_count"]
    restarts = ["tailrace_engine_restarts_total", "tailrace_api_restarts_total"]
    stream(server, "greedy")
    before = {name: server.metric(name) for name in names}
    num_restarts = [server.metric(name) for name in restarts]
    pids = {title: server.kill(title) for title in ("engine", "api 0", "api 1")}
    for title, pid in pids.items():
        server.wait_for_another(title, pid)
    server.wait_until("/ready", 200)
    after = {name: server.metric(name) for name in names}
    assert all(after[name] >= value > 0 for name, value in before.items()), (before, after)
    assert [server.metric(name) for name in restarts] == [num_restarts[0] + 1, num_restarts[1] + 2]
    assert server.metric("tailrace_engine_up") == 1


def test_an_engine_that_dies_too_often_is_left_alone_and_everybody_is_told() -> None:
    options = ("--max-model-tokens", "1024", "--kv-memory", "128MiB", "--max-restarts", "0")
    with serving(*options) as server:
        request = urllib.request.Request(
            server.url + "/v1/completions",
            json.dumps({"prompt": "Go on:", "max_tokens": 500, "ignore_eos": True, "stream": True}).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            reply.readline()
            server.kill("engine")
            rest = reply.read().decode()
        ready, why = server.get("/ready")
        health, _ = server.get("/health")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=60)
        with refused.value as answer:
            status, retry_after = answer.code, answer.headers["retry-after"]

    *_, last = rest.strip().split("\n\n")
    assert "the engine died again and again" in json.loads(last.removeprefix("data: "))["error"]["message"]
    assert (ready, health, status) == (503, 503, 503)
    assert "again and again" in why
    assert 1 <= int(retry_after) <= 60


def test_when_the_supervisor_dies_nobody_is_left() -> None:
    with serving(*OPTIONS) as server:
        pids = [server.pid_of("engine"), server.pid_of("api 0")]
        server.process.kill()
        server.process.wait()
        ends_s = time.monotonic() + 10
        while any(_is_running(pid) for pid in pids):
            assert time.monotonic() < ends_s, "a process lives on without its supervisor"
            time.sleep(0.01)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
