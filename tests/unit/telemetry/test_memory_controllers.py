"""The controllers of memory as Linux describes them, with a system that opens what it is asked for."""

import ctypes
import errno
import os
import platform
import struct
from pathlib import Path

import pytest

from tailrace.errors import SetupError
from tailrace.telemetry.memory_controllers import MemoryControllers


class System:
    """Each event has counted a million by the time that it is read."""

    def __init__(self) -> None:
        self.opened: list[tuple[int, int, int, int]] = []  # type, config, thread, cpu
        self.error = 0

    def syscall(self, _number: int, attributes: bytes, thread: int, cpu: int, *_: int) -> int:
        kind, _size, config = struct.unpack_from("IIQ", attributes)
        self.opened.append((kind, config, thread, cpu))
        if self.error:
            ctypes.set_errno(self.error)
            return -1
        reading, writing = os.pipe()
        os.write(writing, struct.pack("QQQ", 1_000_000, 100, 100))
        os.close(writing)
        return reading


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> System:
    made = System()
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: made)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    return made


def controller(devices: Path, name: str, kind: int, cpus: str) -> None:
    """As a Xeon of 2023 shows one."""
    texts = {
        "type": str(kind),
        "cpumask": cpus,
        "format/event": "config:0-7",
        "format/umask": "config:8-15",
        "events/cas_count_read": "event=0x05,umask=0xcf",
        "events/cas_count_read.scale": "6.103515625e-5",
        "events/cas_count_read.unit": "MiB",
        "events/cas_count_write": "event=0x05,umask=0xf0",
        "events/cas_count_write.scale": "6.103515625e-5",
        "events/cas_count_write.unit": "MiB",
    }
    for path, text in texts.items():
        file = devices / name / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")


def test_reads_and_writes_of_all_controllers_and_sockets_add_up(tmp_path: Path, system: System) -> None:
    controller(tmp_path, "uncore_imc_0", 30, "0,32")
    controller(tmp_path, "uncore_imc_1", 31, "0")
    controller(tmp_path, "uncore_imc_free_running_0", 40, "0")
    counters = MemoryControllers(tmp_path)

    read, write = 0x05 | 0xCF << 8, 0x05 | 0xF0 << 8
    assert system.opened == [
        (30, read, -1, 0),
        (30, write, -1, 0),
        (30, read, -1, 32),
        (30, write, -1, 32),
        (31, read, -1, 0),
        (31, write, -1, 0),
    ]
    assert counters.num_bytes() == pytest.approx(6 * 1_000_000 * 64)  # 6.1e-5 MiB are 64 bytes
    counters.close()


def test_a_machine_without_them_says_so(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="cannot be read: this machine shows none"):
        MemoryControllers(tmp_path)


def test_who_may_not_is_told_what_would_let_them(tmp_path: Path, system: System) -> None:
    controller(tmp_path, "uncore_imc_0", 30, "0")
    system.error = errno.EACCES
    with pytest.raises(SetupError, match=r"cannot be read: kernel\.perf_event_paranoid is"):
        MemoryControllers(tmp_path)


@pytest.mark.parametrize(
    ("path", "text"), [("type", "many"), ("events/cas_count_read", "event=five"), ("cpumask", "0-3")]
)
def test_what_makes_no_sense_is_one_line(path: str, text: str, tmp_path: Path, system: System) -> None:
    controller(tmp_path, "uncore_imc_0", 30, "0")
    (tmp_path / "uncore_imc_0" / path).write_text(text)
    with pytest.raises(SetupError, match="cannot be read: invalid literal"):
        MemoryControllers(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path, system: System) -> None:
    controller(tmp_path, "uncore_imc_0", 30, "0")
    (tmp_path / "uncore_imc_0" / "type").unlink()
    with pytest.raises(SetupError, match=r"cannot be read: .*uncore_imc_0/type"):
        MemoryControllers(tmp_path)
