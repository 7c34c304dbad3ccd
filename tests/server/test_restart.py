"""A server that is killed leaves what it computed in shared memory, for the one that is started after it."""

import json
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any

from tests.server.process import START_TIMEOUT_S, ServerProcess, serving

BLOCK_TOKENS = 80
SETTINGS = ("--kv-memory", "64MiB", "--max-model-tokens", "512", "--block-tokens", f"{BLOCK_TOKENS}")
PROMPT = "The river ran high that spring, and the mill stood idle. " * 20


def complete(server: ServerProcess) -> Any:
    body = {"prompt": PROMPT, "max_tokens": 8, "temperature": 0}
    request = urllib.request.Request(
        server.url + "/v1/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.load(reply)


def wait_until_saved(server: ServerProcess) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while server.metric("tailrace_level_saved_blocks_total") < 3:
        assert time.monotonic() < deadline_s, "nothing was saved"
        time.sleep(0.02)


def test_a_killed_server_leaves_its_blocks_to_the_next(tmp_path: Path) -> None:
    shared = ("--kv-host", "64MiB", "--kv-host-directory", str(tmp_path))
    with serving(*SETTINGS, *shared) as server:
        before = complete(server)
        wait_until_saved(server)
        server.stop(signal.SIGKILL)
    with serving(*SETTINGS, *shared) as server:
        after = complete(server)
        num_fetched = server.metric("tailrace_level_fetched_blocks_total")

    assert before["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    num_tokens = (after["usage"]["prompt_tokens"] - 1) // BLOCK_TOKENS * BLOCK_TOKENS
    assert after["usage"]["prompt_tokens_details"]["cached_tokens_details"] == {"host": num_tokens}
    assert num_fetched == num_tokens // BLOCK_TOKENS
    assert after["choices"][0]["text"] == before["choices"][0]["text"]
