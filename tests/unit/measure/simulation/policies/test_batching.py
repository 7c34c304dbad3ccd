from itertools import pairwise

from tailrace.measure.simulation.policies.batching import AdaptiveSize, Batcher, FixedSize, FullLength, LongestLength
from tailrace.measure.simulation.seam import PADDING
from tailrace.scheduler.plan import SampledToken, StepPlan, StepResult
from tailrace.types import FinishReason, Request, SamplingParams, TokenEvent


def _request(name: str, num_prompt: int, num_output: int, arrival_s: float = 0.0) -> Request:
    return Request(name, tuple(range(num_prompt)), SamplingParams(num_output, ignore_eos=True), arrival_s)


def _commit(batcher: Batcher, plan: StepPlan) -> list[TokenEvent]:
    sampled = tuple(SampledToken(part.request_id, 7) for part in plan.slices if part.is_sampled)
    return batcher.commit(StepResult(plan.step_id, sampled), 0.0)


def _step(batcher: Batcher, now_s: float = 0.0) -> tuple[StepPlan, list[TokenEvent]]:
    plan = batcher.plan(now_s)
    assert plan is not None
    return plan, _commit(batcher, plan)


def test_a_fixed_batch_waits_until_it_is_full_or_the_first_has_waited_for_long() -> None:
    batcher = Batcher(FixedSize(2, 0.5), LongestLength(), 100, 16)
    batcher.add(_request("a", 4, 1, arrival_s=10.0))
    assert batcher.plan(10.4) is None
    assert batcher.has_work
    assert batcher.plan(10.5) is not None


def test_a_full_batch_begins_at_once_and_leaves_the_rest() -> None:
    batcher = Batcher(FixedSize(2, 0.5), LongestLength(), 100, 16)
    for name in "abc":
        batcher.add(_request(name, 4, 1))
    plan, events = _step(batcher)
    assert [entry.request_id for entry in plan.entered] == ["a", "b"]
    assert [event.finish_reason for event in events] == [FinishReason.LENGTH] * 2
    assert batcher.stats.num_waiting == 1


def test_an_adaptive_batch_takes_what_waits() -> None:
    batcher = Batcher(AdaptiveSize(8), LongestLength(), 100, 16)
    for name in "abc":
        batcher.add(_request(name, 4, 1))
    plan, _ = _step(batcher)
    assert len(plan.entered) == 3


def test_prompts_are_padded_to_the_fixed_length_or_a_multiple_of_it() -> None:
    for longest, length in ((5, 8), (9, 16)):
        batcher = Batcher(AdaptiveSize(8), FullLength(8), 100, 16)
        batcher.add(_request("a", longest, 1))
        batcher.add(_request("b", 2, 1))
        plan, _ = _step(batcher)
        assert plan.num_tokens == 2 * length
        assert sum(part.num_tokens for part in plan.slices if part.request_id == PADDING) == 2 * length - longest - 2
        assert plan.size.num_sampled == 2


def test_a_batch_runs_to_its_longest_answer_and_rows_that_ended_go_on_as_padding() -> None:
    batcher = Batcher(AdaptiveSize(8), LongestLength(), 100, 16)
    batcher.add(_request("a", 4, 1))
    batcher.add(_request("b", 4, 3))
    steps = [_step(batcher) for _ in range(3)]
    assert [len(events) for _, events in steps] == [2, 1, 1]
    assert [part.request_id for part in steps[1][0].slices] == [PADDING, "b"]
    assert [plan.num_tokens for plan, _ in steps] == [8, 2, 2]
    assert not batcher.has_work
    assert batcher.stats.num_blocks_used == 0


def test_newcomers_wait_for_the_end_of_the_batch() -> None:
    batcher = Batcher(AdaptiveSize(8), LongestLength(), 100, 16)
    batcher.add(_request("a", 4, 2))
    _step(batcher)
    batcher.add(_request("b", 4, 1))
    plan, _ = _step(batcher)
    assert [part.request_id for part in plan.slices] == ["a"]
    plan, _ = _step(batcher)
    assert [part.request_id for part in plan.slices] == ["b"]


def test_each_token_sees_one_position_more() -> None:
    batcher = Batcher(AdaptiveSize(8), FullLength(8), 100, 16)
    batcher.add(_request("a", 4, 4))
    reads = [_step(batcher)[0].size.num_read_tokens for _ in range(4)]
    assert reads[0] == 8 * 9 // 2
    assert [after - before for before, after in pairwise(reads[1:])] == [1, 1]


def test_a_batch_that_has_no_room_begins_with_fewer_rows() -> None:
    batcher = Batcher(AdaptiveSize(8), FullLength(16), num_blocks=5, block_tokens=16)
    for name in "abc":
        batcher.add(_request(name, 16, 4))
    plan, _ = _step(batcher)
    assert len(plan.entered) == 2
    assert batcher.stats.num_blocks_used == 4


def test_nobody_is_given_up() -> None:
    batcher = Batcher(FixedSize(2, 9.0), LongestLength(), 100, 16)
    batcher.add(_request("a", 4, 1))
    assert batcher.expire(1e6) == []
    assert batcher.stats.predicted_s is None
