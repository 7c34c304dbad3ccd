from dataclasses import replace

import pytest

from benchmarks.scheduling.in_process import Settled
from benchmarks.scheduling.long_prompt import FIXED_BUDGETS, Intrusion, measure_all, median_of, show
from tests.benchmarks.scheduling.conftest import SCENE

INTRUSION = Intrusion(
    without_p50_ms=9.0,
    without_p99_ms=10.0,
    during_p50_ms=14.0,
    during_p99_ms=15.0,
    longest_gap_ms=16.0,
    ttft_ms=300.0,
    ttft_alone_ms=200.0,
    num_steps=7,
)


def test_the_prompt_is_computed_beside_the_streams_each_way(tiny: Settled, capsys: pytest.CaptureFixture[str]) -> None:
    found = measure_all(tiny, SCENE, num_rounds=1)
    assert list(found) == ["as served", *(f"fixed {budget}" for budget in FIXED_BUDGETS)]
    assert all(one.num_steps >= 1 for rounds in found.values() for one in rounds)
    assert found["fixed 2048"][0].num_steps == 1  # 200 tokens fit into one step
    show(found, SCENE)
    assert "fixed 2048" in capsys.readouterr().out


def test_ratios_are_to_streams_without_the_prompt_and_to_the_prompt_alone() -> None:
    assert INTRUSION.p99_ratio == pytest.approx(1.5)
    assert INTRUSION.ttft_ratio == pytest.approx(1.5)


def test_medians_are_over_the_rounds() -> None:
    rounds = [INTRUSION, replace(INTRUSION, during_p99_ms=20.0), replace(INTRUSION, during_p99_ms=90.0)]
    assert median_of(rounds)["during_p99_ms"] == 20.0
    assert median_of(rounds)["p99_ratio"] == pytest.approx(2.0)


def test_streams_outlast_the_prompt_and_the_cache_holds_them_all() -> None:
    assert SCENE.stream_tokens > SCENE.quiet_steps
    assert SCENE.kv_tokens > SCENE.prompt_tokens + SCENE.num_streams * (
        SCENE.stream_prompt_tokens + SCENE.stream_tokens
    )
