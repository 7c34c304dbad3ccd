"""What a router learns of a server that publishes KV events."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from tests.server.process import ServerProcess, serving
from tests.server.test_process import run_serve

ADMIN_KEY = "of-the-tests-and-nobody-else"
WAIT_MS = 20_000


@pytest.fixture
def endpoint(tmp_path: Path) -> str:
    return f"ipc://{tmp_path}/events"


@pytest.fixture
def server(endpoint: str, tmp_path: Path) -> Iterator[ServerProcess]:
    key_file = tmp_path / "key"
    key_file.write_text(ADMIN_KEY)
    options = ("--kv-events", endpoint, "--kv-memory", "8MiB", "--admin-key-file", str(key_file))
    with serving("tiny-deepseek", "--max-model-tokens", "256", *options) as process:
        yield process


def post(server: ServerProcess, path: str, body: dict[str, object]) -> Any:
    headers = {"content-type": "application/json", "authorization": f"Bearer {ADMIN_KEY}"}
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.load(reply)


def replay(endpoint: str) -> list[dict[str, Any]]:
    """All events so far, in order."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as client:
        client.linger = 0
        client.connect(f"{endpoint}-replay")
        client.send_multipart((b"", bytes(8)))
        events: list[dict[str, Any]] = []
        while client.poll(WAIT_MS):
            _, _, batch = client.recv_multipart()
            if not batch:
                return events
            events += msgspec.msgpack.decode(batch)[1]
    raise AssertionError("the replay has no end")


def events_with(endpoint: str, kind: str) -> list[dict[str, Any]]:
    """All events so far once there is one of this kind: they may come after the answer."""
    while True:
        events = replay(endpoint)
        if any(event["type"] == kind for event in events):
            return events


def test_a_prompts_blocks_are_told_when_they_are_stored_and_when_they_are_forgotten(
    server: ServerProcess, endpoint: str
) -> None:
    prompt = "Once upon a time there was a router that knew where each prefix lay. " * 3
    tokens = post(server, "/tokenize", {"prompt": prompt})["tokens"]
    whole = tokens[: len(tokens) // 16 * 16]
    post(server, "/v1/completions", {"prompt": prompt, "max_tokens": 1})
    events = events_with(endpoint, "BlockStored")
    assert events[0] == {"type": "AllBlocksCleared"}
    stored = [event for event in events if event["type"] == "BlockStored"]
    assert [token for event in stored for token in event["token_ids"]] == whole
    parents = [None, *(event["block_hashes"][-1] for event in stored)]
    for event, parent in zip(stored, parents, strict=False):
        assert (event["parent_block_hash"], event["block_size"], event["medium"]) == (parent, 16, "CPU")

    post(server, "/cache/invalidate", {"prefix": {"prompt": prompt}})
    events = events_with(endpoint, "BlockRemoved")
    removed = [own for event in events if event["type"] == "BlockRemoved" for own in event["block_hashes"]]
    assert sorted(removed) == sorted(own for event in stored for own in event["block_hashes"])


def test_an_address_that_cannot_be_used_is_one_line() -> None:
    ended = run_serve("tiny-deepseek", "--port", "0", "--kv-events", "nowhere")
    assert ended.returncode == 1
    assert "--kv-events nowhere is no address" in ended.stderr
    assert ended.stderr.count("\n") == 1
