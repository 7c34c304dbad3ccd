"""Two servers that share a Redis server, and what their users see when it hangs, dies and comes back."""

import json
import signal
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.process import ServerProcess, serving
from tests.support.redis_server import RedisServer, running_redis

SETTINGS = ("tiny-deepseek", "--kv-memory", "16MiB", "--max-model-tokens", "512", "--kv-host", "0")
PROMPTS = [
    f"Chapter {number}. " + "Once upon a time there was a cache that two servers shared. " * 4 for number in range(4)
]


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with running_redis("--requirepass", "hunter2") as server:
        yield server


def settings(redis: RedisServer) -> tuple[str, ...]:
    return (*SETTINGS, "--kv-redis", redis.url.replace("//", "//:hunter2@"))


def complete(server: ServerProcess, prompt: str) -> tuple[str, dict[str, Any]]:
    """The answer and its usage."""
    body = {"prompt": prompt, "max_tokens": 24, "temperature": 0, "ignore_eos": True}
    request = urllib.request.Request(
        server.url + "/v1/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        answer = json.load(reply)
    return answer["choices"][0]["text"], answer["usage"]


def from_redis(usage: dict[str, Any]) -> int:
    return int(usage["prompt_tokens_details"]["cached_tokens_details"].get("redis", 0))


def test_what_one_server_has_computed_another_does_not_whatever_becomes_of_redis(redis: RedisServer) -> None:
    with serving(*settings(redis)) as first:
        expected = [complete(first, prompt)[0] for prompt in PROMPTS]
        first.stop(signal.SIGTERM)  # it saves what waits
    with serving(*settings(redis)) as second:
        text, usage = complete(second, PROMPTS[0])
        assert text == expected[0]
        assert from_redis(usage) >= usage["prompt_tokens"] - 32
        redis.freeze()
        assert complete(second, PROMPTS[1])[0] == expected[1]
        redis.thaw()
        redis.kill()
        assert complete(second, PROMPTS[2])[0] == expected[2]
        redis.start()
        assert complete(second, PROMPTS[3])[0] == expected[3]
        second.stop()
        said = second.output()
    assert "Traceback" not in said
    assert "hunter2" not in said
