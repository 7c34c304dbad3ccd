from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.kernels.__main__ import renewed
from benchmarks.kernels.baseline import Baseline, Setting, Timing
from benchmarks.kernels.counting import Counts
from benchmarks.kernels.report import Run
from benchmarks.kernels.timing import Line
from tailrace.ops.api import Ceilings

SETTING = Setting("a processor, 2 cores", "avx2", "bf16", 2)
LINE = Line("m", "decode 1", "norm", 1.0, 0.0, 0.0, 0.0, 0.0, True)  # costs nothing but time
LINEAR = replace(LINE, op="linear", ceiling_share=0.5)
BASELINE = Baseline(
    SETTING,
    "2026-01-01",
    80.0,
    2.0,
    times={
        "m, decode 1, norm": Timing(1.0, 0.0, 0.0),
        "m, decode 1, noisy": Timing(1.0, 0.3, 0.0),
        "m, decode 1, linear": Timing(1.0, 0.0, 0.5),
    },
    counts={"callgrind, avx2": Counts("GCC 12", {"linear": 1000})},
)


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    BASELINE.write(tmp_path / "baseline.json")
    assert Baseline.read(tmp_path / "baseline.json") == BASELINE


def test_there_may_be_none_yet(tmp_path: Path) -> None:
    assert Baseline.read(tmp_path / "baseline.json") is None


@pytest.mark.parametrize(
    ("time_ms", "text"), [(1.04, "1.040x"), (1.06, "1.060x worse"), (0.96, "0.960x"), (0.9, "0.900x better")]
)
def test_a_time_is_marked_when_it_is_beyond_the_least_noise(time_ms: float, text: str) -> None:
    assert BASELINE.change_of_time(replace(LINE, time_ms=time_ms)).text == text


def test_a_time_is_not_marked_within_the_spread_of_either_run() -> None:
    assert not BASELINE.change_of_time(replace(LINE, time_ms=1.2, spread=0.25)).is_notable
    assert not BASELINE.change_of_time(replace(LINE, op="noisy", time_ms=1.2)).is_notable
    assert BASELINE.change_of_time(replace(LINE, op="noisy", time_ms=1.4)).is_notable


@pytest.mark.parametrize(
    ("time_ms", "ceiling_share", "text"),
    [
        (2.0, 0.25, "2.000x worse"),  # at the same ceilings
        (2.0, 0.5, "2.000x"),  # the whole machine takes twice the time
        (1.0, 0.25, "1.000x"),  # under ceilings that read twice as high
        (0.5, 0.99, "0.500x better"),
        (0.5, 0.5, "0.500x"),
    ],
)
def test_an_op_is_not_blamed_for_a_slow_machine(time_ms: float, ceiling_share: float, text: str) -> None:
    assert BASELINE.change_of_time(replace(LINEAR, time_ms=time_ms, ceiling_share=ceiling_share)).text == text


def test_some_microseconds_are_never_worth_a_mark() -> None:
    baseline = replace(BASELINE, times={LINE.key: Timing(0.004, 0.0, 0.0)})
    assert not baseline.change_of_time(replace(LINE, time_ms=0.008)).is_notable
    assert baseline.change_of_time(replace(LINE, time_ms=0.04)).is_worse


def test_what_the_baseline_lacks_is_new() -> None:
    assert BASELINE.change_of_time(replace(LINE, op="other")).text == "new"
    assert BASELINE.change_of_count("callgrind, avx2", "other", 5).text == "new"


@pytest.mark.parametrize(("count", "is_worse"), [(1019, False), (1021, True), (900, False)])
def test_a_count_is_worse_when_it_grew_by_more_than_two_percent(count: int, is_worse: bool) -> None:
    assert BASELINE.change_of_count("callgrind, avx2", "linear", count).is_worse == is_worse


def test_times_of_another_machine_are_not_compared() -> None:
    assert BASELINE.why_no_times(SETTING) is None
    reason = BASELINE.why_no_times(replace(SETTING, processor="another, 2 cores"))
    assert reason is not None
    assert "another, 2 cores" in reason
    assert "a processor, 2 cores" in reason


def test_counts_of_another_compiler_are_not_judged() -> None:
    assert BASELINE.why_no_counts("callgrind, avx2", "GCC 12") is None
    assert BASELINE.why_no_counts("callgrind, avx2", "GCC 14") is not None
    assert BASELINE.why_no_counts("processor, avx2", "GCC 12") is not None


def test_the_committed_baseline_can_be_read() -> None:
    baseline = Baseline.read()
    assert baseline is not None
    assert baseline.times
    assert baseline.counts


def test_renewing_one_half_leaves_the_other() -> None:
    counts = {"callgrind, avx2": Counts("GCC 12", {"linear": 900})}
    run = Run("a machine", replace(SETTING, isa="portable"), None, [], counts, BASELINE)
    assert renewed(run) == replace(BASELINE, counts=counts)

    run = replace(run, ceilings=Ceilings(90e9, 1e12), lines=[LINEAR], counts={})
    renewed_times = renewed(run)
    assert renewed_times.counts == BASELINE.counts
    assert renewed_times.setting.isa == "portable"
    assert renewed_times.times == {"m, decode 1, linear": Timing(1.0, 0.0, 0.5)}
    assert (renewed_times.read_gbytes_per_s, renewed_times.dot_tops) == (90.0, 1.0)


def test_a_run_names_the_counts_that_grew() -> None:
    counts = {"callgrind, avx2": Counts("GCC 12", {"linear": 1100, "other": 5})}
    run = Run("a machine", SETTING, None, [], counts, BASELINE)
    assert run.grown_counts == ["callgrind, avx2: linear"]
    assert replace(run, counts={"callgrind, avx2": Counts("GCC 14", {"linear": 1100})}).grown_counts == []
    assert replace(run, baseline=None).grown_counts == []
