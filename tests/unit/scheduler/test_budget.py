import random

import pytest

from tailrace.scheduler.budget import HEADROOM, LEAST_TOKENS, Marks, PendingPrompt, StepBudget, scale_of_targets
from tailrace.scheduler.plan import StepSize
from tailrace.scheduler.steptime import COEFFICIENTS, REGIME_BOUNDS, StepTimeModel

SIXTEEN = StepSize(16, 16, 16_000, 16_000)
NOBODY = StepSize(0, 0, 0)
MARKS = Marks(0.06, 0.12)


def known(step_s: float = 2e-3, token_s: float = 1e-3, alone_read_s: float = 1e-6) -> StepTimeModel:
    """2 ms a step, 1 ms a token, 1 µs a position: 34 ms for `SIXTEEN` at contexts of 1,000 tokens."""
    regime = dict(zip(COEFFICIENTS, (step_s, token_s, 0.0, alone_read_s, 0.5e-6), strict=True))
    return StepTimeModel.from_dict({"full_tokens": 512, "regime_bounds": REGIME_BOUNDS, "regimes": [regime] * 4})


def joined(decode: StepSize, count: int, read_per_token: int) -> StepSize:
    num_read = decode.num_read_tokens + count * read_per_token + count * (count + 1) // 2
    return StepSize(decode.num_tokens + count, decode.num_sampled, num_read, decode.num_alone_read_tokens)


def predicted_s(model: StepTimeModel, size: StepSize) -> float:
    took_s = model.predict(size)
    assert took_s is not None
    return took_s


def test_fills_a_step_up_to_its_target_and_no_further() -> None:
    model, rng = known(), random.Random(1)
    for _ in range(500):
        num_streams, context = rng.randrange(1, 33), rng.randrange(1, 1_000)
        decode = StepSize(num_streams, num_streams, num_streams * context, num_streams * context)
        target_s, start = rng.uniform(0.01, 0.5), rng.randrange(4_000)
        count = StepBudget(model).prefill_tokens(decode, target_s=target_s, read_per_token=start, most=480)
        assert min(LEAST_TOKENS, 480) <= count <= 480
        if count > LEAST_TOKENS:
            assert predicted_s(model, joined(decode, count, start)) <= target_s
        if count < 480:
            assert predicted_s(model, joined(decode, count + 2, start)) > target_s


def test_more_time_never_means_fewer_tokens() -> None:
    budget = StepBudget(known())
    counts = [
        budget.prefill_tokens(SIXTEEN, target_s=time_ms / 1_000, read_per_token=1_000, most=480)
        for time_ms in range(1, 1_200, 7)
    ]
    assert counts == sorted(counts)
    assert counts[0] == LEAST_TOKENS
    assert counts[-1] == 480


def test_a_prompt_moves_though_decodes_alone_take_too_long() -> None:
    budget = StepBudget(known())
    assert budget.prefill_tokens(SIXTEEN, target_s=0.01, read_per_token=0, most=480) == LEAST_TOKENS
    assert budget.prefill_tokens(SIXTEEN, target_s=0.01, read_per_token=0, most=3) == 3
    assert budget.prefill_tokens(SIXTEEN, target_s=0.01, read_per_token=0, most=480, least=0) == 0
    assert budget.prefill_tokens(SIXTEEN, target_s=0.01, read_per_token=0, most=0) == 0


def test_a_regime_that_is_faster_does_not_let_a_step_go_beyond_its_target() -> None:
    slow, fast = ((2e-3, each_s, 0.0, 1e-6, 0.5e-6) for each_s in (1e-3, 0.5e-3))
    regimes = [dict(zip(COEFFICIENTS, each, strict=True)) for each in (slow, slow, slow, fast)]
    model = StepTimeModel.from_dict({"full_tokens": 512, "regime_bounds": REGIME_BOUNDS, "regimes": regimes})
    for target_ms in range(40, 120):
        count = StepBudget(model).prefill_tokens(SIXTEEN, target_s=target_ms / 1_000, read_per_token=0, most=480)
        took_s = predicted_s(model, joined(SIXTEEN, count, 0))
        assert count == LEAST_TOKENS or took_s <= target_ms / 1_000


def test_while_nothing_is_known_streams_share_with_a_small_chunk() -> None:
    budget = StepBudget(StepTimeModel())
    assert budget.prefill_tokens(SIXTEEN, target_s=0.01, read_per_token=0, most=480) == 32
    assert budget.prefill_tokens(SIXTEEN, target_s=0.01, read_per_token=0, most=5) == 5
    assert budget.prefill_tokens(NOBODY, target_s=0.01, read_per_token=0, most=480) == 480


def test_the_steady_mark_is_two_fifths_more_than_the_decodes() -> None:
    marks = StepBudget(known()).marks(SIXTEEN, tightest_itl_s=0.15)
    assert marks.steady_s == pytest.approx(1.4 * 0.034)
    assert marks.ceiling_s == pytest.approx(0.15 * HEADROOM)


def test_short_prompts_may_have_as_much_of_a_step_as_the_decodes() -> None:
    budget = StepBudget(known())
    assert budget.marks(SIXTEEN, tightest_itl_s=0.15, is_brisk=True).steady_s == pytest.approx(2.0 * 0.034)
    one = StepSize(1, 1, 100, 100)
    assert budget.marks(one, tightest_itl_s=0.15, is_brisk=True).steady_s == 0.04
    assert budget.marks(one, tightest_itl_s=0.05, is_brisk=True).steady_s == pytest.approx(0.05 * HEADROOM * 0.7)
    assert budget.marks(one, tightest_itl_s=0.03, is_brisk=True).steady_s == 0.02


def test_the_steady_mark_is_no_less_than_nobody_sees() -> None:
    one = StepSize(1, 1, 100, 100)
    assert StepBudget(known()).marks(one, tightest_itl_s=0.15).steady_s == 0.02
    assert StepBudget(StepTimeModel()).marks(one, tightest_itl_s=0.15).steady_s == 0.02


def test_the_marks_keep_their_order_when_the_ceiling_is_low() -> None:
    steady_s, ceiling_s = StepBudget(known()).marks(SIXTEEN, tightest_itl_s=0.08, factor=0.5)
    assert steady_s == ceiling_s == pytest.approx(0.08 * 0.5 * HEADROOM)


def target_s(*pending: PendingPrompt, marks: Marks = MARKS) -> float:
    return StepBudget(known()).target_s(SIXTEEN, marks, pending, 100.0, read_per_token=0, most=480)


def test_nobody_is_disturbed_while_all_prompts_are_in_time_anyway() -> None:
    assert target_s() == MARKS.steady_s
    assert target_s(PendingPrompt(1_000, 110.0)) == MARKS.steady_s  # at the steady mark, over 400 tokens a second


def test_a_step_takes_as_much_longer_as_a_deadline_demands() -> None:
    times_s = [target_s(PendingPrompt(1_000, 100.0 + left_s)) for left_s in (10.0, 4.0, 3.5, 3.0, 2.0)]
    assert times_s == sorted(times_s)
    assert times_s[0] == MARKS.steady_s
    assert MARKS.steady_s < times_s[1] < times_s[-1]
    assert times_s[-1] == MARKS.ceiling_s


def test_the_pace_of_a_step_meets_the_deadline_with_a_margin() -> None:
    budget, num_tokens, now_s = StepBudget(known()), 1_000, 100.0
    pending = PendingPrompt(num_tokens, now_s + 4.0)
    while num_tokens > 0:
        end_s = budget.target_s(SIXTEEN, MARKS, [pending], now_s, read_per_token=0, most=480)
        count = budget.prefill_tokens(SIXTEEN, target_s=end_s, read_per_token=0, most=480)
        num_tokens, now_s = num_tokens - count, now_s + end_s
        pending = PendingPrompt(num_tokens, pending.deadline_s)
    assert now_s < 103.0  # the less is left, the nearer to the steady pace


def test_those_ahead_count() -> None:
    late = PendingPrompt(100, 103.0)
    assert target_s(late) == MARKS.steady_s
    assert target_s(PendingPrompt(800, 200.0), late) > MARKS.steady_s
    assert target_s(late, PendingPrompt(800, 200.0)) == MARKS.steady_s


def test_who_would_be_late_all_the_same_disturbs_nobody() -> None:
    assert target_s(PendingPrompt(100_000, 101.0)) == MARKS.steady_s
    assert target_s(PendingPrompt(100, 99.0)) == MARKS.steady_s
    assert target_s(PendingPrompt(100, 99.0), PendingPrompt(1_000, 104.0)) > MARKS.steady_s


def test_where_the_marks_are_one_there_is_no_choice() -> None:
    assert target_s(PendingPrompt(1_000, 103.0), marks=Marks(0.06, 0.06)) == 0.06


def test_targets_scale_with_what_thirty_two_streams_take() -> None:
    took_s = 2e-3 + 32e-3 + 32 * 256e-6
    assert scale_of_targets(known(), 0.05) == pytest.approx(2.0 * took_s / 0.05)
    assert scale_of_targets(known(), 1.0) == 1.0
    assert scale_of_targets(StepTimeModel(), 0.05) == 1.0


def test_where_fewer_run_at_a_time_targets_scale_with_what_these_take() -> None:
    took_s = 2e-3 + 16e-3 + 16 * 256e-6
    assert scale_of_targets(known(), 0.01, most_rows=16) == pytest.approx(2.0 * took_s / 0.01)
    assert scale_of_targets(known(), 0.05, most_rows=64) == scale_of_targets(known(), 0.05)
