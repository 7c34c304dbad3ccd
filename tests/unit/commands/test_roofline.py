"""`tailrace roofline` from its arguments to its exit code, with a device that does as it is told."""

import json
from pathlib import Path

import pytest

from tailrace.cli import main
from tailrace.commands import roofline as command
from tailrace.telemetry.kept_roofline import KeptRoofline
from tailrace.telemetry.roofline import Machine


class Device:
    """A megabyte is read as fast as much more, and each thread adds as much."""

    numbers = ("int8", "f32")
    made: int = 0

    def __init__(self, num_threads: int, _max_bytes: int) -> None:
        Device.made += 1
        self.rate = 1e10 * num_threads
        self.num_reads = 0

    def read(self, _num_bytes: int) -> float:
        return self.rate

    def multiply(self, numbers: str, count: int) -> float:
        return self.rate * (100 if numbers == "int8" else 10)


class Uneven(Device):
    """Each try is faster than the one before, without an end."""

    def read(self, _num_bytes: int) -> float:
        self.num_reads += 1
        return self.rate * self.num_reads


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeptRoofline:
    """Two cores, and nothing known of them."""
    kept = KeptRoofline(tmp_path / "cache", Machine("a processor", "some set", 2))
    monkeypatch.setattr(command, "kept_roofline", lambda: kept)
    monkeypatch.setattr(command, "load_gauge", Device)
    monkeypatch.setattr("tailrace.measure.roofline._WHOLE_S", 0.0)
    monkeypatch.setattr("tailrace.measure.roofline._LEAST_TRIES_S", 0.0)
    monkeypatch.setattr("tailrace.measure.roofline._TRY_S", 0.0)
    Device.made = 0
    return kept


def test_it_is_measured_once_and_shown_again(machine: KeptRoofline, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["roofline"]) == 0
    shown = capsys.readouterr()
    assert "a processor, 2 cores" in shown.out
    assert "some set" in shown.out
    assert "1 thread  " in shown.out
    assert "2 Top/s" in shown.out
    assert shown.err == "", "no progress in a pipe, and nothing to warn of"
    assert Device.made == 2

    assert main(["roofline"]) == 0
    assert capsys.readouterr().out == shown.out
    assert Device.made == 2, "what is known is not measured again"
    assert machine.find() is not None


def test_what_cannot_be_kept_is_shown_all_the_same(machine: KeptRoofline, capsys: pytest.CaptureFixture[str]) -> None:
    machine.directory.write_text("no directory")
    assert main(["roofline"]) == 0
    shown = capsys.readouterr()
    assert "2 Top/s" in shown.out
    assert "cannot be kept" in shown.err
    assert shown.err.count("\n") == 1


def test_fresh_measures_again_and_threads_are_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["roofline", "--threads", "1", "--json"]) == 0
    assert [each["num_threads"] for each in json.loads(capsys.readouterr().out)["threads"]] == [1]
    assert main(["roofline", "--threads", "1", "2", "--json"]) == 0
    assert [each["num_threads"] for each in json.loads(capsys.readouterr().out)["threads"]] == [1, 2]
    assert Device.made == 3
    assert main(["roofline", "--fresh", "--json"]) == 0
    assert Device.made == 5


def test_a_busy_machine_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command, "load_gauge", Uneven)
    assert main(["roofline"]) == 0
    assert "the machine was busy: reading from" in capsys.readouterr().err


def test_more_threads_than_cores_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["roofline", "--threads", "3"]) == 1
    assert "--threads 3: this process may use 2 cores" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["chart.svg", "chart.PNG"])
def test_a_chart_is_drawn(name: str, tmp_path: Path) -> None:
    assert main(["roofline", "--plot", str(tmp_path / name)]) == 0
    drawn = (tmp_path / name).read_bytes()
    if name.endswith("svg"):
        assert b"operations per byte" in drawn
        assert b"memory" in drawn
        assert b"int8" in drawn
    else:
        assert drawn.startswith(b"\x89PNG")


def test_no_picture_is_refused_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["roofline", "--plot", "chart.txt"]) == 2
    assert "must end in .png or .svg" in capsys.readouterr().err


def test_a_chart_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["roofline", "--plot", str(tmp_path / "missing" / "a.svg")]) == 1
    assert "cannot write" in capsys.readouterr().err


def test_without_what_draws_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    assert main(["roofline", "--plot", "a.svg"]) == 1
    assert "pip install 'tailrace[plot]'" in capsys.readouterr().err
