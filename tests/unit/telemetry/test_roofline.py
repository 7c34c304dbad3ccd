"""Ceilings between what was measured, and what is kept of them."""

from pathlib import Path

import msgspec
import pytest

from tailrace.errors import SetupError
from tailrace.telemetry.kept_roofline import KeptRoofline, this_machine
from tailrace.telemetry.roofline import Ceilings, Machine, ReadRate, Roofline
from tailrace.version import __version__

MACHINE = Machine("a processor", "some set", 4)
READS = (ReadRate("L2", 1 << 20, 4e11), ReadRate("L3", 1 << 26, 1e11), ReadRate("memory", 1 << 30, 2e10))
ALL = Ceilings(4, READS, {"int8": 4e12, "f32": 4e11})
ONE = Ceilings(1, READS[-1:], {"int8": 1e12, "f32": 1e11})
FOUND = Roofline(MACHINE, __version__, 1.8e9, 0.01, "reading", (ONE, ALL))


@pytest.mark.parametrize(
    ("num_bytes", "rate"),
    [
        (0, 4e11),
        (1 << 20, 4e11),
        (1 << 23, 2e11),  # half the way from 2^20 to 2^26, and from 4 to 1
        (1 << 26, 1e11),
        (1 << 28, (1e11 * 2e10) ** 0.5),  # half the way from 2^26 to 2^30
        (1 << 30, 2e10),
        (1 << 40, 2e10),
    ],
)
def test_rates_of_reading_lie_between_those_measured(num_bytes: int, rate: float) -> None:
    assert ALL.read_bytes_per_s(num_bytes) == pytest.approx(rate)


def test_threads_that_were_not_measured_are_held_against_fewer() -> None:
    assert [FOUND.of(count).num_threads for count in (1, 2, 3, 4, 9)] == [1, 1, 1, 4, 4]
    assert FOUND.covers([1, 4])
    assert not FOUND.covers([1, 2])


def test_an_unknown_kind_of_numbers_has_no_peak() -> None:
    assert (ALL.peak("int8"), ALL.peak("fp64")) == (4e12, None)


def test_what_was_kept_is_found_by_the_same_machine_alone(tmp_path: Path) -> None:
    kept = KeptRoofline(tmp_path / "new", MACHINE)
    assert kept.find() is None
    kept.keep(FOUND)

    assert kept.find() == FOUND
    others = (Machine("another", "some set", 4), Machine("a processor", "old set", 4), Machine("a processor", "", 8))
    for other in others:
        assert KeptRoofline(tmp_path / "new", other).find() is None
    assert [path.suffix for path in (tmp_path / "new").iterdir()] == [".json"]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[" * 100_000,
        msgspec.json.encode(msgspec.structs.replace(FOUND, version="0.0.0")),
        msgspec.json.encode(msgspec.structs.replace(FOUND, threads=())),
        msgspec.json.encode(msgspec.structs.replace(FOUND, threads=(Ceilings(1, (), {}),))),
        msgspec.json.encode(msgspec.structs.replace(FOUND, threads=(Ceilings(1, READS, {"int8": 0.0}),))),
    ],
)
def test_a_file_that_makes_no_sense_is_as_none(tmp_path: Path, text: bytes) -> None:
    kept = KeptRoofline(tmp_path, MACHINE)
    kept.path.write_bytes(text)
    assert kept.find() is None


def test_a_directory_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match=r"cannot be kept in .*file.*TAILRACE_CACHE_DIR"):
        KeptRoofline(tmp_path / "file", MACHINE).keep(FOUND)


def test_this_machine_has_a_processor() -> None:
    machine = this_machine("some set")
    assert machine.cpu
    assert machine.num_cpus >= 1
    assert machine.instruction_set == "some set"
