"""A real server with two API processes and its clients in shared memory: what comes over it is what comes over HTTP."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessageParam

import tailrace
from tailrace.errors import InvalidRequest, UnavailableError
from tests.server.over_http import answer_over_http
from tests.server.process import ServerProcess, serving

OPTIONS = ("--max-model-tokens", "1024", "--kv-memory", "128MiB", "--api-workers", "2")
NAME = f"tests-{os.getpid()}"
MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Tell me of rivers."}]
TOKENS = 48


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with serving(*OPTIONS, "--shm", NAME) as process:
        yield process


@pytest.fixture
def client(server: ServerProcess) -> Iterator[tailrace.Client]:
    with tailrace.connect(f"shm://{NAME}") as client:
        yield client


def files(name: str) -> set[str]:
    return {path.name for path in Path(f"/dev/shm/tailrace-{os.geteuid()}").glob(f"{name}.*")}


def test_the_answer_is_that_of_http_whichever_process_gives_it(server: ServerProcess) -> None:
    for seed in range(4):
        expected = answer_over_http(server.url, MESSAGES, TOKENS, seed)
        with tailrace.connect(f"shm://{NAME}") as client:
            stream = client.stream(MESSAGES, max_tokens=TOKENS, temperature=0.7, seed=seed, ignore_eos=True)
            assert "".join(stream) == expected
            assert stream.usage.completion_tokens == TOKENS


def test_tools_and_calls_are_part_of_the_prompt(client: tailrace.Client) -> None:
    look = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
    called = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    looked: list[Mapping[str, Any]] = [
        *MESSAGES,
        {"role": "assistant", "content": "", "tool_calls": [called]},
        {"role": "tool", "content": "A weir.", "tool_call_id": "c1"},
    ]
    answers = [
        *client.generate(MESSAGES, max_tokens=2),
        *client.generate(MESSAGES, max_tokens=2, tools=[look]),
        *client.generate(looked, max_tokens=2, tools=[look]),
    ]
    counts = [answer.usage.prompt_tokens for answer in answers]
    assert len(counts) == 3
    assert counts == sorted(set(counts))


def test_a_batch_is_answered_in_order(client: tailrace.Client) -> None:
    prompts = [f"The number {i} is" for i in range(8)]
    batch = client.generate(prompts, max_tokens=8, temperature=0.0)
    assert [each.text for each in batch] == [
        client.generate(prompt, max_tokens=8, temperature=0.0)[0].text for prompt in prompts
    ]


def test_who_leaves_leaves_nothing_running(server: ServerProcess, client: tailrace.Client) -> None:
    stream = client.stream("Once", max_tokens=900, ignore_eos=True)
    next(iter(stream))
    client.close()
    server.wait_for_less("tailrace_requests_running", 1)


def test_answers_are_counted_as_those_of_other_front_ends(server: ServerProcess, client: tailrace.Client) -> None:
    names = ["tailrace_shm_requests_total", "tailrace_first_text_seconds_count"]
    before = [server.metric(name) for name in names]
    for _ in range(3):
        assert "".join(client.stream("Once", max_tokens=4, ignore_eos=True))
    assert [server.metric(name) - was for name, was in zip(names, before, strict=True)] == [3, 3]


def test_what_is_out_of_range_is_refused_by_its_field(client: tailrace.Client) -> None:
    with pytest.raises(InvalidRequest) as refused:
        client.stream("a", temperature=3.0)
    assert refused.value.param == "temperature"


def test_a_second_server_is_told_that_the_name_is_taken(server: ServerProcess) -> None:
    command = [sys.executable, "-m", "tailrace.cli", "serve", "tiny-deepseek", "--port", "0", "--shm", NAME]
    second = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert second.returncode == 1
    assert f"another server is called '{NAME}' in shared memory" in second.stderr


def test_who_is_served_at_the_end_is_served_to_the_end_and_nothing_is_left() -> None:
    own = f"{NAME}-own"
    with serving(*OPTIONS, "--shm", own) as process, tailrace.connect(f"shm://{own}") as client:
        stream = client.stream("Once", max_tokens=200, ignore_eos=True)
        texts = iter(stream)
        next(texts)
        process.process.send_signal(signal.SIGTERM)
        for _ in texts:
            pass
        assert stream.usage.completion_tokens == 200
        assert process.stop() == 0
        assert files(own) == set()
        with pytest.raises(UnavailableError):
            client.stream("Once")
