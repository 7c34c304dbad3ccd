from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks.scheduling.in_process import Settled
from benchmarks.scheduling.preemption import MEMORIES, Payment, Scene, measure_all, median_of, never, show
from tailrace.classes import STANDARD
from tailrace.config import EngineConfig
from tailrace.loading import load_model
from tailrace.weights.load import open_checkpoint

SCENE = Scene(num_places=2, bronze_prompt_tokens=20, bronze_tokens=60, num_gold=2, gold_prompt_tokens=20, every_steps=5)
CONFIG = EngineConfig(kv_memory_bytes=16 << 20, max_model_tokens=512, max_running=SCENE.num_places)
PAYMENT = Payment(10.0, 20.0, 1.0, 2, 0, 0.01, 5.0, 50.0, 3.0, 100.0, 800)


@pytest.fixture
def settled() -> Iterator[Settled]:
    model = load_model(open_checkpoint("tiny-deepseek"), CONFIG)
    yield Settled.on(model, CONFIG)
    model.executable.close()


def test_each_way_is_measured_with_each_memory(settled: Settled, capsys: pytest.CaptureFixture[str]) -> None:
    found = measure_all(settled, SCENE, num_rounds=1)
    assert list(found) == list(MEMORIES)
    for ways in found.values():
        assert list(ways) == ["give way", "never"]
        assert ways["never"][0].num_for_deadlines == 0
        assert all(one.gold_ttft_p50_ms > 0 for rounds in ways.values() for one in rounds)
    show(found, SCENE)
    assert "never" in capsys.readouterr().out


def test_short_memory_does_not_hold_all_who_run_but_each_alone() -> None:
    one = Scene().bronze_prompt_tokens + Scene().bronze_tokens
    assert one < 16 * Scene().num_blocks(MEMORIES["short"], 16) < Scene().num_places * one
    assert 16 * Scene(num_places=1).num_blocks(MEMORIES["short"], 16) > one


def test_nobody_gives_way_in_classes_that_never_do() -> None:
    assert all(each.max_yields == 0 for each in never(STANDARD))


def test_medians_are_over_the_rounds() -> None:
    rounds = [PAYMENT, replace(PAYMENT, lost_share=0.02), replace(PAYMENT, lost_share=0.5)]
    assert median_of(rounds)["lost_share"] == 0.02
