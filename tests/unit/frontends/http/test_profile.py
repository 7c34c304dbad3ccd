"""Asking what a process does: who may, what is understood, and what is answered."""

import asyncio
import os
from pathlib import Path

import pytest
from starlette.types import ASGIApp

from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.telemetry.profile import ALL, Profiler, ProfileTurn
from tailrace.telemetry.prometheus import Metrics
from tests.support.asgi import Answer, ask, talk
from tests.support.profiling import install_stand_in
from tests.support.scripted_service import ScriptedService

KEY = "0123456789abcdef"
ADMIN = {"authorization": f"Bearer {KEY}"}


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install_stand_in(monkeypatch, tmp_path, "output.write_text(' '.join(options))\n")


@pytest.fixture
def turn() -> ProfileTurn:
    return ProfileTurn()


@pytest.fixture
def app(service: ScriptedService, metrics: Metrics, turn: ProfileTurn) -> ASGIApp:
    pid = os.getpid()
    profiler = Profiler(lambda: {"engine": pid, "api 0": pid, ALL: pid}, turn)
    return create_app(service, metrics, HttpConfig(admin_key=KEY), profiler=profiler)


async def profile(app: ASGIApp, query: str = "") -> Answer:
    return await ask(app, f"/debug/profile?{query}", headers=ADMIN)


async def test_only_who_has_the_admin_key_may(app: ASGIApp, service: ScriptedService, metrics: Metrics) -> None:
    assert (await ask(app, "/debug/profile")).status == 401
    without = create_app(service, metrics, HttpConfig(), profiler=Profiler(dict, ProfileTurn()))
    assert (await profile(without)).status == 403


@pytest.mark.parametrize(
    ("query", "kind", "wanted"),
    [
        ("", "image/svg+xml", "--native --duration 10 --format flamegraph"),
        ("format=speedscope&seconds=3", "application/json", "--duration 3 --format speedscope"),
        ("format=collapsed&native=false", "text/plain", "--nonblocking --format raw"),
        ("process=all&seconds=60", "image/svg+xml", "--subprocesses --duration 60"),
    ],
)
async def test_what_is_asked_for_is_what_is_done(app: ASGIApp, query: str, kind: str, wanted: str) -> None:
    answer = await profile(app, query)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith(kind)
    done = answer.body.decode()
    assert all(option in done for option in wanted.split(" --"))
    assert f"--pid {os.getpid()}" in done


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("seconds=0", "seconds"),
        ("seconds=61", "seconds"),
        ("seconds=1e9", "seconds"),
        ("seconds=two", "seconds"),
        ("format=pdf", "format"),
        ("native=perhaps", "native"),
        ("process=init", "process"),
        ("process=1", "process"),
        ("process=%2Fproc", "process"),
        ("pid=1", "pid"),
        ("seconds=1&seconds=2", None),
    ],
)
async def test_what_is_not_understood_is_refused_by_name(app: ASGIApp, query: str, param: str | None) -> None:
    answer = await profile(app, query)
    assert answer.status == 400
    assert answer.json()["error"]["param"] == param


async def test_who_asks_for_no_process_is_told_which_there_are(app: ASGIApp) -> None:
    assert "engine, api 0, all" in (await profile(app, "process=api")).json()["error"]["message"]


async def test_who_wants_the_head_alone_costs_nobody_anything(app: ASGIApp, turn: ProfileTurn) -> None:
    with turn.taken():
        answer = await ask(app, "/debug/profile?format=speedscope", method="HEAD", headers=ADMIN)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")


async def test_while_one_is_taken_others_are_told_to_come_back(app: ASGIApp, turn: ProfileTurn) -> None:
    with turn.taken():
        answer = await profile(app)
    assert answer.status == 409
    assert answer.json()["error"]["code"] == "profile_running"
    assert (await profile(app)).status == 200


async def test_a_machine_that_does_not_let_us_is_a_503_that_says_why(
    app: ASGIApp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install_stand_in(monkeypatch, tmp_path, "sys.exit('Permission denied')\n")
    answer = await profile(app)
    assert answer.status == 503
    assert "SYS_PTRACE" in answer.json()["error"]["message"]


async def test_it_ends_when_the_client_goes(
    app: ASGIApp, turn: ProfileTurn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    body = "signal.signal(signal.SIGINT, lambda *_: sys.exit(Path('{ended}').touch()))\nPath('{began}').touch()\n"
    began, ended = tmp_path / "began", tmp_path / "ended"
    install_stand_in(monkeypatch, tmp_path, body.format(began=began, ended=ended) + "while True: time.sleep(0.01)\n")
    asking = talk(app, "/debug/profile?seconds=60", headers=ADMIN, method="GET")
    while not began.exists():
        await asyncio.sleep(0.01)
    asking.leave()
    await asyncio.wait([asking.task])
    assert ended.exists()
    with turn.taken():
        pass
