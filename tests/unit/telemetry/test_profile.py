"""Looking into processes: what comes of it, whose turn it is, and that nobody is hurt."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tailrace.errors import SetupError
from tailrace.telemetry.profile import ALL, ProfileFormat, ProfileOrder, Profiler, ProfileTurn, TurnTaken
from tests.support.profiling import install_stand_in, state_of, turning

ENDLESS = "output.with_name('started').touch()\nwhile True: time.sleep(0.01)\n"


@pytest.fixture
def turner() -> Iterator[int]:
    with turning() as pid:
        yield pid


@pytest.fixture
def profiler(turner: int) -> Profiler:
    return Profiler(lambda: {"engine": turner, ALL: turner}, ProfileTurn())


def order(
    profile_format: ProfileFormat = "collapsed", *, process: str = "engine", has_native: bool = False
) -> ProfileOrder:
    return ProfileOrder(process, 1, profile_format, has_native)


@pytest.mark.parametrize("has_native", [True, False])
async def test_it_says_what_a_process_does(profiler: Profiler, *, has_native: bool) -> None:
    lines = (await profiler.take(order(has_native=has_native))).decode().splitlines()
    counts = [int(line.rpartition(" ")[2]) for line in lines if "turn_the_crank" in line]
    assert sum(counts) > 20  # of a hundred, on a busy machine


async def test_a_flame_graph_is_a_picture(profiler: Profiler) -> None:
    picture = (await profiler.take(order("svg"))).decode()
    assert picture.startswith("<?xml")
    assert "turn_the_crank" in picture


async def test_speedscope_is_its_json(profiler: Profiler) -> None:
    profile = json.loads(await profiler.take(order("speedscope")))
    assert "speedscope" in profile["$schema"]
    assert any("turn_the_crank" in frame["name"] for frame in profile["shared"]["frames"])


async def test_all_are_a_process_and_its_children(
    profiler: Profiler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install_stand_in(monkeypatch, tmp_path, "output.write_text(' '.join(options))\n")
    assert "--subprocesses" in (await profiler.take(order(process=ALL))).decode()
    assert "--subprocesses" not in (await profiler.take(order())).decode()


async def test_who_is_not_held_up_shows_no_native_functions(
    profiler: Profiler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install_stand_in(monkeypatch, tmp_path, "output.write_text(' '.join(options))\n")
    for has_native in (True, False):
        options = (await profiler.take(order(has_native=has_native))).decode()
        assert ("--native" in options, "--nonblocking" in options) == (has_native, not has_native)


async def test_without_py_spy_it_says_what_to_install(
    profiler: Profiler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match=r"pip install 'tailrace\[profile\]'"):
        await profiler.take(order())


@pytest.mark.parametrize("said", ["Error: Permission Denied: Try running again with elevated permissions", "EPERM"])
async def test_a_system_that_forbids_it_is_named_with_what_to_allow(
    profiler: Profiler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str
) -> None:
    install_stand_in(monkeypatch, tmp_path, f"print({said!r}, file=sys.stderr)\nsys.exit(1)\n")
    with pytest.raises(SetupError, match=r"SYS_PTRACE.*ptrace_scope") as raised:
        await profiler.take(order())
    assert said in str(raised.value)


async def test_a_process_that_does_nothing_has_no_picture(profiler: Profiler, turner: int) -> None:
    os.kill(turner, signal.SIGSTOP)
    assert b"turn" not in await profiler.take(order("collapsed"))
    with pytest.raises(SetupError, match="did nothing"):
        await profiler.take(order("svg"))


async def test_whatever_else_is_wrong_is_said(
    profiler: Profiler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install_stand_in(monkeypatch, tmp_path, "sys.exit('no such process, or so')\n")
    with pytest.raises(SetupError, match="no such process, or so"):
        await profiler.take(order())


async def test_there_is_one_at_a_time(profiler: Profiler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install_stand_in(monkeypatch, tmp_path, ENDLESS)
    first = asyncio.create_task(profiler.take(order()))
    await asyncio.sleep(0)
    with pytest.raises(TurnTaken):
        await profiler.take(order())
    first.cancel()
    await asyncio.wait([first])
    install_stand_in(monkeypatch, tmp_path, "output.touch()\n")
    assert await profiler.take(order()) == b""


def test_a_turn_is_that_of_all_processes_and_ends_with_whoever_has_it() -> None:
    turn = ProfileTurn()
    told, tells = os.pipe()
    pid = os.fork()
    if pid == 0:
        with turn.taken():
            os.write(tells, b"mine")
            signal.pause()
        os._exit(1)
    assert os.read(told, 4) == b"mine"
    with pytest.raises(TurnTaken), turn.taken():
        pass
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with turn.taken():
        pass
    os.close(told)
    os.close(tells)


async def test_cancelled_it_ends_at_once_and_lets_go(profiler: Profiler, turner: int) -> None:
    taking = asyncio.create_task(profiler.take(ProfileOrder("engine", 60, "collapsed", has_native=True)))
    await asyncio.to_thread(_wait_until_looked_at, turner)
    taking.cancel()
    await asyncio.wait([taking])
    assert taking.cancelled()
    assert _tracer_of(turner) == 0
    await asyncio.to_thread(_wait_until_running, turner)


async def test_closed_it_ends_at_once_and_takes_no_more(profiler: Profiler, turner: int) -> None:
    taking = asyncio.create_task(profiler.take(ProfileOrder("engine", 60, "collapsed", has_native=True)))
    await asyncio.to_thread(_wait_until_looked_at, turner)
    profiler.close()
    for each in (taking, profiler.take(order())):
        with pytest.raises(SetupError, match="the server ends"):
            await asyncio.wait_for(each, 30)
    assert _tracer_of(turner) == 0


async def test_whom_a_profiler_that_must_be_killed_had_stopped_goes_on(
    profiler: Profiler, turner: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tailrace.telemetry.profile._PATIENCE_S", 0.05)
    stubborn = "signal.signal(signal.SIGINT, signal.SIG_IGN)\nos.kill(pid, signal.SIGSTOP)\n"
    install_stand_in(monkeypatch, tmp_path, stubborn + "while True: time.sleep(1)\n")
    taking = asyncio.create_task(profiler.take(order()))
    while state_of(turner) != "T":
        await asyncio.sleep(0.01)
    taking.cancel()
    await asyncio.wait([taking])
    await asyncio.to_thread(_wait_until_running, turner)


async def test_one_that_never_ends_is_ended(
    profiler: Profiler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tailrace.telemetry.profile._OVERTIME_S", -0.5)
    install_stand_in(monkeypatch, tmp_path, ENDLESS)
    with pytest.raises(SetupError, match="did not come to an end"):
        await profiler.take(order())


def _tracer_of(pid: int) -> int:
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("TracerPid"))
    return int(line.split()[1])


def _wait_until_looked_at(pid: int) -> None:
    while _tracer_of(pid) == 0:
        time.sleep(0.0001)


def _wait_until_running(pid: int) -> None:
    while state_of(pid) != "R":
        time.sleep(0.01)
