from collections.abc import Callable
from dataclasses import replace

import pytest

from tailrace.engine.calibrate import calibrated
from tailrace.ops.api import Limits
from tailrace.scheduler.plan import SampledToken, StepPlan, StepResult, StepSize
from tailrace.scheduler.steptime import StepTimeModel
from tests.support.steps import limits

LIMITS = limits(max_tokens=512, max_sequences=64, max_model_tokens=2_048, block_tokens=16)


def took_s(size: StepSize) -> float:
    return 0.004 + 0.001 * size.num_tokens + 1e-6 * size.num_read_tokens


class PretendedRunner:
    """Takes its time by moving a clock, and holds each plan to what a runner relies on."""

    def __init__(self, took_s: Callable[[StepSize], float] = took_s, first_s: float = 0.0) -> None:
        self.limits = LIMITS
        self.now_s = 50.0
        self.running: set[str] = set()
        self.committed: list[range] = []
        self.most_blocks = 0
        self._took_s = took_s
        self._first_s = first_s  # that the first step takes more

    def run(self, plan: StepPlan) -> StepResult:
        self.committed += plan.committed
        self.most_blocks = max(self.most_blocks, sum(map(len, self.committed)))
        self.running -= set(plan.left)
        for entry, part in zip(plan.entered, plan.slices, strict=True):
            assert entry.request_id == part.request_id not in self.running
            assert len(entry.token_ids) == part.start + part.num_tokens <= self.limits.max_model_tokens
            assert len(part.new_blocks) * self.limits.block_tokens >= len(entry.token_ids)
            self.running.add(entry.request_id)
        blocks = [block_id for part in plan.slices for block_id in part.new_blocks]
        assert len(set(blocks)) == len(blocks)
        if blocks:
            assert set(blocks) <= set(self.committed[0]) <= set(range(self.limits.num_blocks))
            self._compute(plan.size)
        for run in plan.released:
            self.committed.remove(run)
        sampled = tuple(SampledToken(part.request_id, 0) for part in plan.slices if part.is_sampled)
        return StepResult(plan.step_id, sampled)

    def _compute(self, size: StepSize) -> None:
        assert size.num_tokens <= self.limits.max_tokens
        assert size.num_sampled <= self.limits.max_sequences
        self.now_s += self._took_s(size) + self._first_s
        self._first_s = 0.0


def calibrate(runner: PretendedRunner, of: Limits = LIMITS) -> StepTimeModel:
    runner.limits = of
    return calibrated(runner, of, clock=lambda: runner.now_s)


def test_the_model_knows_the_machine_afterwards() -> None:
    model = calibrate(PretendedRunner())
    for rows in (1, 4, 8, 16, 32, 64):
        size = StepSize(rows, rows, 100 * rows, 100 * rows)
        assert model.predict(size) == pytest.approx(took_s(size), rel=0.25)
    assert model.prefill_rate == pytest.approx(512 / took_s(StepSize(512, 1, 512 * 256)), rel=0.25)


def test_the_first_step_of_a_cold_machine_does_not_count() -> None:
    assert calibrate(PretendedRunner(first_s=0.3)).to_dict() == calibrate(PretendedRunner()).to_dict()


def test_a_neighbour_that_holds_up_a_step_of_one_row_does_not_count() -> None:
    hold_up_s = iter([0.0, 0.02, 0.0, 0.0, 0.02, 0.0])
    disturbed = calibrate(PretendedRunner(lambda size: took_s(size) + next(hold_up_s, 0.0)))
    assert disturbed.to_dict() == calibrate(PretendedRunner()).to_dict()


def test_nothing_is_left_behind() -> None:
    runner = PretendedRunner()
    calibrate(runner)
    assert not runner.running
    assert not runner.committed


def test_a_slow_model_is_not_measured_for_long() -> None:
    runner = PretendedRunner(lambda size: 200.0 * took_s(size))
    model = calibrate(runner)
    assert runner.now_s - 50.0 < 4.0
    assert not runner.running
    assert not runner.committed
    assert model.predict(StepSize(1, 1, 1, 1)) == pytest.approx(1.0, rel=0.2)


@pytest.mark.parametrize("max_tokens", [32, 100_000_000])
def test_a_step_of_as_many_streams_is_measured_whatever_a_step_may_compute(max_tokens: int) -> None:
    of = limits(max_tokens=max_tokens, max_sequences=64, max_model_tokens=2_048, block_tokens=16)
    runner = PretendedRunner()
    size = StepSize(32, 32, 32 * 256, 32 * 256)
    assert calibrate(runner, of).predict(size) == pytest.approx(took_s(size), rel=0.25)
    assert runner.most_blocks == 32


@pytest.mark.parametrize(
    "of",
    [
        limits(max_tokens=1, max_sequences=1, max_model_tokens=2, block_tokens=16),
        limits(max_tokens=8, max_sequences=2, max_model_tokens=32, block_tokens=4),
        limits(max_tokens=512, max_sequences=64, max_model_tokens=20, block_tokens=16),
        replace(LIMITS, num_blocks=3),
        replace(LIMITS, block_tokens=256, num_blocks=100),
    ],
)
def test_stays_within_the_limits(of: Limits) -> None:
    runner = PretendedRunner()
    assert calibrate(runner, of).predict(StepSize(1, 1, 1, 1)) is not None
    assert not runner.running
    assert not runner.committed
