"""A real server is looked into while it answers: what it does has names, in Python and in C++."""

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from benchmarks.flamegraph.__main__ import draw, loaded
from tests.server.conftest import ADMIN_KEY
from tests.server.process import START_TIMEOUT_S, ServerProcess

ADMIN = {"authorization": f"Bearer {ADMIN_KEY}"}


@pytest.fixture
def busy(server: ServerProcess) -> Iterator[None]:
    """It has something to do meanwhile."""
    with loaded(server.url, num_streams=2):
        yield


def taken(server: ServerProcess, query: str) -> tuple[int, str]:
    request = urllib.request.Request(f"{server.url}/debug/profile?{query}", headers=ADMIN)
    try:
        with urllib.request.urlopen(request, timeout=START_TIMEOUT_S) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.usefixtures("busy")
def test_what_computes_has_names(server: ServerProcess) -> None:
    status, profile = taken(server, "seconds=2&format=collapsed")
    assert status == 200, profile
    (*_, heaviest) = sorted(profile.splitlines(), key=lambda line: int(line.rpartition(" ")[2]))
    assert "tailrace" in heaviest
    native = [line for line in profile.splitlines() if "tailrace/engine/engine.py" in line and "tailrace::" in line]
    assert native, "no function of the native core has a name: was it stripped?"


@pytest.mark.usefixtures("busy")
def test_all_processes_are_in_one_picture(server: ServerProcess) -> None:
    picture = draw(server.url, ADMIN_KEY, "all", seconds=1).decode()
    assert picture.startswith("<?xml")
    assert "tailrace: engine" in picture
    assert "tailrace: api 0" in picture


def test_the_profiler_ends_when_its_client_goes(server: ServerProcess) -> None:
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=START_TIMEOUT_S)
    connection.request("GET", "/debug/profile?seconds=60", headers=ADMIN)
    api = server.pid_of("api 0")
    wait_for_children(api, 1)
    connection.close()
    wait_for_children(api, 0)
    status, said = taken(server, "seconds=1&process=api%200&format=collapsed")
    assert status == 200, said


def wait_for_children(pid: int, count: int) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while len(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()) != count:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
