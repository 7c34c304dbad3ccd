"""A large model: requests are let in before its weights are all read, and a second start maps what the first packed."""

import json
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.server.process import ServerProcess, serving

PROGRAM = "tests.server.slow_loader"
OPTIONS = ("tiny-deepseek", "--max-model-tokens", "256", "--kv-memory", "64MiB")
PROMPT = "Once upon a time there was a mill by the river, and in it"


def complete(server: ServerProcess) -> str:
    body = json.dumps({"prompt": PROMPT, "max_tokens": 24, "temperature": 0, "ignore_eos": True}).encode()
    request = urllib.request.Request(server.url + "/v1/completions", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        text: str = json.loads(reply.read())["choices"][0]["text"]
    return text


@pytest.fixture(scope="module")
def expected() -> str:
    with serving(*OPTIONS) as server:
        return complete(server)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TAILRACE_CACHE_DIR", str(tmp_path))
    return tmp_path / "packed"


def is_loading(server: ServerProcess) -> bool:
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    titles = [Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0] for pid in children]
    return b"tailrace: loader" in titles


def wait_until_loaded(server: ServerProcess) -> None:
    ends_s = time.monotonic() + 60
    while is_loading(server):
        assert time.monotonic() < ends_s
        time.sleep(0.02)


def test_requests_are_let_in_while_weights_are_read_and_answered_as_ever(
    expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_PIECE_S", "0.02")
    with serving(*OPTIONS, program=PROGRAM) as server:
        assert is_loading(server), "it was ready before its weights were read"
        assert complete(server) == expected
        wait_until_loaded(server)
        assert complete(server) == expected
        server.kill("engine")
        assert complete(server) == expected


def test_an_engine_that_dies_while_weights_are_read_is_followed_by_one_that_waits_on(
    expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_PIECE_S", "0.02")
    with serving(*OPTIONS, program=PROGRAM) as server:
        server.kill("engine")
        assert is_loading(server)
        assert complete(server) == expected


def test_a_second_start_maps_what_the_first_has_packed(expected: str, cache: Path) -> None:
    with serving(*OPTIONS, program=PROGRAM) as server:
        assert complete(server) == expected
        wait_until_loaded(server)
    (kept,) = cache.iterdir()
    with serving(*OPTIONS, program=PROGRAM) as server:
        assert not is_loading(server)
        assert complete(server) == expected
        maps = Path(f"/proc/{server.pid_of('engine')}/maps").read_text()
        assert str(kept) in maps
        assert not [line for line in maps.splitlines() if str(kept) in line and "w" in line.split()[1]]


def test_a_damaged_file_of_packed_weights_is_packed_anew(expected: str, cache: Path) -> None:
    with serving(*OPTIONS, program=PROGRAM) as server:
        wait_until_loaded(server)
    (kept,) = cache.iterdir()
    kept.write_bytes(bytes(kept.stat().st_size))
    with serving(*OPTIONS, program=PROGRAM) as server:
        assert complete(server) == expected
        wait_until_loaded(server)
    assert any(kept.read_bytes())


def test_who_wants_no_files_has_none(expected: str, cache: Path) -> None:
    with serving(*OPTIONS, "--weight-cache", "0", program=PROGRAM) as server:
        assert complete(server) == expected
        wait_until_loaded(server)
    assert not cache.exists()


def test_a_tensor_that_turns_out_to_be_damaged_ends_the_server_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_PIECE_S", "0.06")  # long enough for the server to be asked before that is read
    monkeypatch.setenv("TEST_DAMAGED", "layers.2.o")
    with serving(*OPTIONS, program=PROGRAM) as server:
        with pytest.raises((urllib.error.HTTPError, ConnectionError)):
            complete(server)
        assert server.process.wait(timeout=30) == 1
        output = server.output()
    assert output.splitlines()[-1].endswith("tensor layers.2.o is damaged")
    assert "Traceback" not in output


def test_a_server_can_be_stopped_while_weights_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_PIECE_S", "0.2")
    with serving(*OPTIONS, "--drain-timeout", "1", program=PROGRAM) as server:
        began_s = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began_s < 20
