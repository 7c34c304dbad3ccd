"""The processor's own counts, with a system that gives them and with systems that do not."""

import ctypes
import errno
import os
import platform
import struct
from pathlib import Path
from typing import Any

import pytest

from tailrace.errors import SetupError
from tailrace.telemetry import perf_events
from tailrace.telemetry.perf_events import ProcessCounters


def num_open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


class System:
    """Opens an event as a pipe that holds what was counted; fails when told to."""

    def __init__(self, error: int = 0) -> None:
        self.error = error
        self.counts = {0: 3000, 1: 6000, 3: 50}  # cycles, instructions, cache misses
        self.opened: list[tuple[int, int]] = []  # threads and events

    def syscall(self, _number: int, attributes: bytes, thread: int, *_: int) -> int:
        if self.error:
            ctypes.set_errno(self.error)
            return -1
        config = struct.unpack_from("IIQ", attributes)[2]
        self.opened.append((thread, config))
        reading, writing = os.pipe()
        os.write(writing, struct.pack("QQQ", self.counts[config], 200, 100))
        os.close(writing)
        return reading


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> System:
    made = System()
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: made)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    return made


def test_all_threads_count_together_and_as_if_they_had_counted_all_of_the_time(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perf_events, "_threads", lambda _pid: iter([70, 71]))
    counters = ProcessCounters(70)
    assert counters.counts() == {"cycles": 12_000, "instructions": 24_000, "cache_misses": 200}  # half of it, twice
    counters.close()
    assert system.opened == [(thread, event) for thread in (70, 71) for event in (0, 1, 3)]


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (errno.EACCES, "perf_event_paranoid is"),
        (errno.EPERM, "belongs to somebody else"),
        (errno.ENOENT, "this machine shows none, as most virtual machines do"),
        (errno.EOPNOTSUPP, "this machine shows none"),
        (errno.ESRCH, "the engine ended meanwhile"),
        (errno.EMFILE, "Too many open files"),
    ],
)
def test_why_there_are_none_is_one_line(system: System, error: int, says: str) -> None:
    system.error = error
    with pytest.raises(SetupError, match=f"counters are not to be had: .*{says}"):
        ProcessCounters(os.getpid())


def test_a_process_that_is_not_to_be_seen_is_said() -> None:
    with pytest.raises(SetupError, match="not to be seen from here"):
        ProcessCounters(2**22 + 1)


@pytest.mark.parametrize(("name", "machine"), [("Darwin", "x86_64"), ("Linux", "riscv64")])
def test_other_systems_are_named(name: str, machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    replaced: dict[str, Any] = {"system": lambda: name, "machine": lambda: machine}
    for function, answer in replaced.items():
        monkeypatch.setattr(platform, function, answer)
    with pytest.raises(SetupError, match=f"on {name} {machine}"):
        ProcessCounters(os.getpid())


def test_what_was_opened_is_closed_when_the_next_cannot_be(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    before = num_open_files()
    threads = iter([1, 2])

    def until_the_second(_pid: int) -> Any:
        yield next(threads)
        system.error = errno.ESRCH
        yield next(threads)

    monkeypatch.setattr(perf_events, "_threads", until_the_second)
    with pytest.raises(SetupError, match="ended meanwhile"):
        ProcessCounters(1)
    assert num_open_files() == before
