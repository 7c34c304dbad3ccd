"""Keys of a running server: who has one gets in, and a changed file holds without a restart."""

import json
import signal
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.server.process import START_TIMEOUT_S, ServerProcess, serving

SHOP, NIGHTLY = "sk-shop-0123456789", "sk-nightly-0123456"


def put(path: Path, content: str) -> None:
    path.with_suffix(".new").write_text(content)
    path.with_suffix(".new").rename(path)


def line(name: str, key: str) -> str:
    return json.dumps({"name": name, "key": key}) + "\n"


def status(server: ServerProcess, key: str) -> int:
    request = urllib.request.Request(server.url + "/v1/models", headers={"authorization": f"Bearer {key}"})
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def wait_for_status(server: ServerProcess, key: str, wanted: int) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while (now := status(server, key)) != wanted:
        assert time.monotonic() < deadline_s, f"the answer is {now} and did not become {wanted}"
        time.sleep(0.02)


def test_keys_come_and_go_while_the_server_runs(tmp_path: Path) -> None:
    path = tmp_path / "keys.jsonl"
    path.write_text(line("shop", SHOP))
    with serving("tiny-deepseek", "--kv-memory", "16MiB", "--warm-tokens", "0", "--api-keys", str(path)) as server:
        assert (status(server, SHOP), status(server, NIGHTLY)) == (200, 401)
        put(path, line("shop", SHOP) + line("nightly", NIGHTLY))
        wait_for_status(server, NIGHTLY, 200)

        put(path, line("shop", SHOP) + "{broken")
        server.process.send_signal(signal.SIGHUP)  # ends nothing
        assert (status(server, SHOP), status(server, NIGHTLY)) == (200, 200)

        put(path, line("nightly", NIGHTLY))
        server.process.send_signal(signal.SIGHUP)
        wait_for_status(server, SHOP, 401)
        assert status(server, NIGHTLY) == 200
        assert server.stop() == 0
        said = server.output()
    assert SHOP not in said
    assert NIGHTLY not in said
