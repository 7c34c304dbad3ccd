"""Three servers, two of them on one host, all with one Redis server: what one is told to forget, nobody uses again."""

import json
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from redis import Redis

from tailrace.levels.redis_log import LOG_KEY
from tests.server.process import START_TIMEOUT_S, ServerProcess, serving
from tests.support.redis_server import RedisServer, running_redis

BLOCK_TOKENS = 48
SETTINGS = ("tiny-deepseek", "--kv-memory", "16MiB", "--max-model-tokens", "512", "--block-tokens", f"{BLOCK_TOKENS}")
HOST = ("--kv-host", "16MiB")
KEY = "of-the-tests-and-nobody-else"


@dataclass(frozen=True)
class Host:
    """One server, asked as its clients and its operator do."""

    process: ServerProcess

    def complete(self, prompt: str) -> dict[str, int]:
        """How many tokens came from each level. Less than a block is what all prompts here begin with."""
        body = {"prompt": prompt, "max_tokens": 1, "temperature": 0}
        details = self._post("/v1/completions", body)["usage"]["prompt_tokens_details"]
        found = details["cached_tokens_details"]
        assert isinstance(found, dict)
        assert sum(found.values()) == details["cached_tokens"]
        return {level: count for level, count in found.items() if count >= BLOCK_TOKENS}

    def invalidate(self, **target: object) -> Any:
        return self._post("/cache/invalidate", target)

    def knows(self, prompt: str) -> bool:
        """Whether its engine has anything of the prompt."""
        return self.would_get(prompt, "engine") >= BLOCK_TOKENS

    def would_get(self, prompt: str, level: str) -> int:
        """How many tokens of the prompt a level has for it; a busy machine may take one below for slow, for a while."""
        found = self.explain(prompt)["cached_tokens_details"].get(level, 0)
        assert isinstance(found, int)
        return found

    def explain(self, prompt: str) -> Any:
        return self._ask("/cache/explain", json.dumps({"prompt": prompt}).encode())

    def until(self, condition: Callable[[], bool]) -> None:
        """Ask again and again."""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline_s, "it does not come to that"

    def until_saved(self, num_blocks: int) -> None:
        """Until so many blocks, since it was started, lie on each of its levels."""
        self.until(lambda: min(self._num_saved()) >= num_blocks)

    def _num_saved(self) -> list[float]:
        _, text = self.process.get("/metrics")
        lines = [line for line in text.splitlines() if line.startswith("tailrace_level_saved_blocks_total{")]
        saved = [float(line.rpartition(" ")[2]) for line in lines]
        return [number for line, number in zip(lines, saved, strict=True) if "disk" not in line]

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        return self._ask(path, json.dumps(body).encode())

    def _ask(self, path: str, body: bytes | None = None) -> Any:
        headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
        request = urllib.request.Request(self.process.url + path, body, headers)
        with urllib.request.urlopen(request, timeout=START_TIMEOUT_S) as reply:
            return json.load(reply)


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture(scope="module")
def settings(redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Of each server."""
    directory = tmp_path_factory.mktemp("servers")
    key_file = directory / "key"
    key_file.write_text(KEY)
    shared = ("--kv-redis", redis_server.url, "--kv-host-directory", str(directory))
    return (*SETTINGS, *shared, "--admin-key-file", str(key_file))


@pytest.fixture(scope="module")
def servers(settings: tuple[str, ...]) -> Iterator[tuple[Host, Host, Host]]:
    """One, its neighbour on the same host, and one elsewhere."""
    with ExitStack() as stack:
        one, neighbour = (stack.enter_context(serving(*settings, *HOST)) for _ in range(2))
        elsewhere = stack.enter_context(serving(*settings))
        yield Host(one), Host(neighbour), Host(elsewhere)


def prompt_about(subject: str) -> str:
    return f"All that was ever known of {subject}, told once more. " * 20


def test_what_one_is_told_to_forget_nobody_gives_again(servers: tuple[Host, Host, Host]) -> None:
    one, neighbour, elsewhere = servers
    prompt, kept = prompt_about("the river"), prompt_about("the mill")
    assert one.complete(prompt) == one.complete(kept) == {}
    one.until_saved(6)
    neighbour.until(lambda: neighbour.would_get(prompt, "host") >= 3 * BLOCK_TOKENS)
    elsewhere.until(lambda: elsewhere.would_get(prompt, "redis") >= 3 * BLOCK_TOKENS)
    neighbour.until(lambda: "host" in neighbour.complete(prompt) or neighbour.knows(prompt))
    elsewhere.until(lambda: "redis" in elsewhere.complete(prompt) or elsewhere.knows(prompt))
    elsewhere.complete(kept)

    done = one.invalidate(prefix={"prompt": prompt})
    assert done["dropped_blocks"]["engine"] >= 3
    assert done["dropped_blocks"]["host"] == done["dropped_blocks"]["redis"] == "pending"
    assert not one.knows(prompt)
    assert one.explain(prompt)["cache_miss_reason"] == "invalidated"
    neighbour.until(lambda: not neighbour.knows(prompt))
    elsewhere.until(lambda: not elsewhere.knows(prompt))
    assert neighbour.complete(prompt) == {}  # nor from a level
    assert one.knows(kept)
    assert elsewhere.knows(kept)

    neighbour.until_saved(3)
    elsewhere.until(lambda: elsewhere.knows(prompt) or "redis" in elsewhere.complete(prompt))


def _nothing(client: Redis) -> None:
    """The log is as it was."""


def _cut(client: Redis) -> None:
    client.xtrim(LOG_KEY, maxlen=0, approximate=False)


def _lost(client: Redis) -> None:
    client.delete(LOG_KEY)


@pytest.mark.parametrize("happens", [_nothing, _cut, _lost])
def test_one_that_was_away_gives_nothing_that_was_forgotten_meanwhile(
    servers: tuple[Host, Host, Host], redis_server: RedisServer, happens: Callable[[Redis], None]
) -> None:
    one, _, elsewhere = servers
    prompt = prompt_about(f"the bridge that {happens.__name__}")
    elsewhere.complete(prompt)
    assert elsewhere.knows(prompt)

    elsewhere.process.send_to_all(signal.SIGSTOP)
    try:
        one.invalidate(prefix={"prompt": prompt})
        with redis_server.client() as client:
            one.until(lambda: client.xlen(LOG_KEY) > 1)
            happens(client)
    finally:
        elsewhere.process.send_to_all(signal.SIGCONT)
    elsewhere.until(lambda: not elsewhere.knows(prompt))
    assert elsewhere.complete(prompt) == {}


def test_what_was_forgotten_while_no_server_of_a_host_ran_is_not_in_its_memory(
    settings: tuple[str, ...], servers: tuple[Host, Host, Host]
) -> None:
    prompt, kept = prompt_about("the weir"), prompt_about("the ford")
    alone = (*settings, "--kv-host", "8MiB", "--kv-cache-dtype", "f32")  # blocks of another size: memory of its own
    elsewhere = (*settings, "--kv-cache-dtype", "f32")
    with serving(*elsewhere) as other:
        with serving(*alone) as process:
            host = Host(process)
            host.complete(prompt)
            host.complete(kept)
            host.until_saved(6)
        Host(other).invalidate(prefix={"prompt": prompt})
        with serving(*alone) as process:
            host = Host(process)
            assert host.complete(prompt) == {}
            host.until(lambda: host.would_get(kept, "host") >= BLOCK_TOKENS)
