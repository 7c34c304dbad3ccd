"""The live feed of a real server: what all of its processes do is in everybody's picture, and outlives an engine."""

import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPResponse
from typing import Any

import pytest

from tests.server.process import ServerProcess, serving

WAIT_S = 30.0
PROMPT = "The water mill stood by the river for as long as anybody could remember. " * 6


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with serving("--api-workers", "2", "--kv-memory", "64MiB", "--max-model-tokens", "1024") as process:
        yield process


class Feed:
    def __init__(self, response: HTTPResponse) -> None:
        self._response = response

    def frame(self) -> Any:
        assert self._response.readline() == b"event: frame\n"
        data = self._response.readline()
        assert self._response.readline() == b"\n"
        return json.loads(data.removeprefix(b"data: "))

    def rest(self) -> bytes:
        return self._response.read()

    def wait_for(self, is_there: Callable[[Any], bool]) -> Any:
        ends_s = time.monotonic() + WAIT_S
        while time.monotonic() < ends_s:
            if is_there(frame := self.frame()):
                return frame
        raise AssertionError(f"it did not come; the last frame: {frame}")


@pytest.fixture
def feed(server: ServerProcess) -> Iterator[Feed]:
    with closing(urllib.request.urlopen(server.url + "/console/feed", timeout=WAIT_S)) as response:
        yield Feed(response)


def complete(server: ServerProcess, request_id: str = "", **fields: object) -> None:
    body = json.dumps({"prompt": PROMPT, "max_tokens": 20, "ignore_eos": True, **fields}).encode()
    headers = {"content-type": "application/json", "x-request-id": request_id}
    request = urllib.request.Request(server.url + "/v1/completions", body, headers)
    with urllib.request.urlopen(request, timeout=WAIT_S) as reply:
        reply.read()


def ended_life(server: ServerProcess, request_id: str) -> Any:
    """Its client has the last byte before its process has noted that."""
    ends_s = time.monotonic() + WAIT_S
    while time.monotonic() < ends_s:
        status, text = server.get(f"/console/requests/{request_id}")
        assert status == 200, text
        if (life := json.loads(text))["took_s"] is not None:
            return life
    raise AssertionError(f"it does not end: {text}")


def test_what_any_process_answers_is_in_the_picture(server: ServerProcess, feed: Feed) -> None:
    feed.frame()
    for _ in range(6):  # connections are taken by whichever process is quicker
        complete(server)
    steps: list[Any] = []

    def all_ended(frame: Any) -> bool:
        steps.extend(frame["steps"])
        return bool(sum(line["state"] == "ended" for line in frame["requests"]) == 6)

    frame = feed.wait_for(all_ended)
    assert [step["id"] for step in steps] == sorted({step["id"] for step in steps})
    assert sum(step["num_decodes"] for step in steps) >= 6 * 19
    (computed, *_) = [step["prompts"] for step in steps if step["prompts"]]
    assert computed[0][0].startswith(frame["requests"][-1]["id"])
    assert {line["finish_reason"] for line in frame["requests"]} == {"length"}
    assert {line["num_output_tokens"] for line in frame["requests"]} == {20}
    found = frame["requests"][0]
    assert 0 < found["num_cached_tokens"] < found["num_prompt_tokens"]
    assert {each["name"] for each in frame["processes"]} == {"engine", "api 0", "api 1"}


def test_one_request_is_told_in_parts_by_whichever_process_is_asked(server: ServerProcess) -> None:
    complete(server, "of-the-test", prompt="Another beginning. " * 40, stream=True)
    for _ in range(4):
        life = ended_life(server, "of-the-test")
        assert life["finish_reason"] == "length"
        names = [part["name"] for part in life["parts"]]
        assert names.index("queue") < names.index("prefill") < names.index("write") < names.index("decode")
        assert life["parts"][-1]["end_s"] == pytest.approx(life["took_s"])
        assert sum(part["tokens"] for part in life["parts"]) == life["num_prompt_tokens"] - life["num_cached_tokens"]


def test_hits_are_remembered_over_the_death_of_an_engine(server: ServerProcess, feed: Feed) -> None:
    complete(server)
    complete(server)
    before = feed.wait_for(lambda frame: any(share for _, share in frame["heat"]["rows"][0]["cells"]))
    dead = server.kill("engine")
    server.wait_for_another("engine", dead)
    complete(server)
    after = feed.wait_for(lambda frame: frame["steps"])
    share_before, share_after = (frame["heat"]["rows"][0]["cells"][-1][1] for frame in (before, after))
    assert share_after > 0.0
    assert share_before > 0.0


def test_a_server_that_ends_ends_its_feeds_and_waits_for_none(server: ServerProcess, feed: Feed) -> None:
    feed.frame()
    started_s = time.monotonic()
    server.process.terminate()
    assert feed.rest()[-3:] in (b"", b"}\n\n")
    assert server.process.wait(WAIT_S) == 0
    assert time.monotonic() - started_s < 25.0  # less than the patience with who is served
