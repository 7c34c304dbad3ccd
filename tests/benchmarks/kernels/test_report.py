from dataclasses import replace

import pytest

from benchmarks.kernels.baseline import Baseline, Setting, Timing
from benchmarks.kernels.counting import Counts
from benchmarks.kernels.report import Run, show, to_dict
from benchmarks.kernels.timing import Line
from tailrace.ops.api import Ceilings

SETTING = Setting("a processor, 2 cores", "avx2", "bf16", 2)
LINE = Line("SmolLM2-135M", "decode 1", "linear q+k+v", 2.0, 0.01, 20.0, 0.5, 0.25, True)
BASELINE = Baseline(
    SETTING,
    "2026-01-01",
    80.0,
    2.0,
    times={LINE.key: Timing(1.0, 0.01, 0.5)},
    counts={"callgrind, avx2": Counts("GCC 12", {"linear": 1000})},
)
RUN = Run(
    "a machine",
    SETTING,
    Ceilings(80e9, 2e12),
    [LINE],
    {"callgrind, avx2": Counts("GCC 12", {"linear": 1100})},
    BASELINE,
)


def shown(run: Run, capsys: pytest.CaptureFixture[str]) -> str:
    show(run)
    return capsys.readouterr().out


def test_changes_are_shown_line_by_line_and_in_sum(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(RUN, capsys)
    assert "2.000x worse" in text
    assert "beyond the noise of both runs: 1 worse, 0 better" in text
    assert "1.100x worse" in text
    assert "more instructions than in the baseline: callgrind, avx2: linear" in text


def test_on_another_machine_only_counts_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(replace(RUN, setting=replace(SETTING, processor="another, 4 cores")), capsys)
    assert "times are not compared" in text
    assert "another, 4 cores" in text
    assert "2.000x" not in text
    assert "1.100x worse" in text


def test_counts_of_another_compiler_are_shown_and_not_judged(capsys: pytest.CaptureFixture[str]) -> None:
    run = replace(RUN, counts={"callgrind, avx2": Counts("GCC 14", {"linear": 1100})})
    text = shown(run, capsys)
    assert "1,100" in text
    assert "not judged: callgrind, avx2: built by GCC 14, the baseline by GCC 12" in text


def test_without_a_baseline_it_says_how_to_get_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--update-baseline writes one" in shown(replace(RUN, baseline=None), capsys)


def test_json_has_the_ratios() -> None:
    found = to_dict(RUN)
    assert [line["ratio"] for line in found["times"]] == [2.0]
    assert [line["ratio"] for line in found["counts"]] == [1.1]
    assert found["grown_counts"] == ["callgrind, avx2: linear"]
    assert [line["ratio"] for line in to_dict(replace(RUN, baseline=None))["times"]] == [None]
