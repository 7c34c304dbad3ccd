from dataclasses import replace

import pytest

from tailrace.errors import EngineError, InvalidRequest
from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.scheduler.plan import SampledToken, StepPlan, StepResult
from tailrace.scheduler.scheduler import MAX_UNREAD_RECORDS, Scheduler, SchedulerConfig
from tailrace.types import FinishReason, TokenEvent, TokenLogprob, packed
from tests.support.simulation import make_request

EOS = 0


def make_scheduler(
    *,
    budget_tokens: int = 16,
    max_running: int = 4,
    max_model_tokens: int = 100,
    num_blocks: int = 100,
    block_tokens: int = 4,
    chunk_tokens: int | None = None,
) -> Scheduler:
    config = SchedulerConfig(budget_tokens, max_running, max_model_tokens, (EOS,), chunk_tokens)
    return Scheduler(config, KvCache(KvCacheConfig(num_blocks, block_tokens, ("model",))))


def plan(scheduler: Scheduler, now_s: float = 0.0) -> StepPlan:
    planned = scheduler.plan(now_s)
    assert planned is not None
    return planned


def commit(scheduler: Scheduler, planned: StepPlan, token_id: int = 5, now_s: float = 0.0) -> list[TokenEvent]:
    sampled = tuple(SampledToken(part.request_id, token_id) for part in planned.slices if part.is_sampled)
    return scheduler.commit(StepResult(planned.step_id, sampled), now_s)


def step(scheduler: Scheduler, token_id: int = 5, now_s: float = 0.0) -> list[TokenEvent]:
    return commit(scheduler, plan(scheduler, now_s), token_id, now_s)


def plan_and_commit(scheduler: Scheduler) -> StepPlan:
    planned = plan(scheduler)
    commit(scheduler, planned)
    return planned


def shares(planned: StepPlan) -> dict[str, int]:
    return {part.request_id: part.num_tokens for part in planned.slices}


def sent(event: TokenEvent | None) -> tuple[str, int | None, int, FinishReason | None]:
    """What matters of an event here."""
    assert event is not None
    return event.request_id, event.token_id, event.num_cached_tokens, event.finish_reason


def test_an_idle_scheduler_plans_nothing() -> None:
    scheduler = make_scheduler()
    assert scheduler.plan(0.0) is None
    assert not scheduler.has_work


def test_a_prompt_enters_with_its_tokens_and_blocks_and_is_sampled() -> None:
    scheduler = make_scheduler()
    request = make_request("a", range(1, 7))
    scheduler.add(request)
    planned = plan(scheduler)
    assert planned.entered[0].token_ids == packed([1, 2, 3, 4, 5, 6])
    (part,) = planned.slices
    assert (part.start, part.num_tokens, part.is_sampled, part.new_blocks) == (0, 6, True, (0, 1))
    assert (planned.num_tokens, planned.size.num_sampled, planned.left, planned.copies) == (6, 1, (), ())


def test_decode_computes_the_newest_token_and_takes_a_block_only_when_one_is_full() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_request("a", range(1, 7), 10))
    step(scheduler)
    parts = []
    for _ in range(4):
        planned = plan(scheduler)
        parts += [(part.start, part.num_tokens, part.new_blocks) for part in planned.slices]
        assert not planned.entered
        commit(scheduler, planned)
    assert parts == [(6, 1, ()), (7, 1, ()), (8, 1, (2,)), (9, 1, ())]


def test_streams_come_first_and_prompts_leave_a_part_to_newcomers() -> None:
    scheduler = make_scheduler(budget_tokens=8)
    scheduler.add(make_request("stream", [1], 50))
    step(scheduler)
    scheduler.add(make_request("long", range(20, 40), 50))
    scheduler.add(make_request("short", [50, 51], 50, arrival_s=1.0))
    seen = []
    for _ in range(4):
        planned = plan(scheduler)
        assert planned.num_tokens <= 8
        seen.append(shares(planned))
        commit(scheduler, planned)
    assert seen == [
        {"stream": 1, "long": 7},
        {"stream": 1, "long": 5, "short": 2},
        {"stream": 1, "long": 4, "short": 1},
        {"stream": 1, "long": 4, "short": 1},
    ]


def test_beside_streams_prompts_take_no_more_than_a_chunk() -> None:
    scheduler = make_scheduler(budget_tokens=16, chunk_tokens=3)
    scheduler.add(make_request("stream", range(1, 13), 5))
    assert shares(plan_and_commit(scheduler)) == {"stream": 12}  # alone: the whole budget
    scheduler.add(make_request("long", range(20, 28), 2))
    scheduler.add(make_request("next", [50, 51], 2, arrival_s=1.0))
    seen = [shares(plan_and_commit(scheduler)) for _ in range(5)]
    assert seen == [
        {"stream": 1, "long": 3},
        {"stream": 1, "long": 3},
        {"stream": 1, "long": 2, "next": 1},
        {"stream": 1, "long": 1, "next": 1},
        {"next": 1},
    ]


def test_the_shortest_goes_on_first_and_the_oldest_has_its_part() -> None:
    scheduler = make_scheduler(budget_tokens=6)
    scheduler.add(make_request("short", [60, 61], 1))
    scheduler.add(make_request("long", range(20, 29), 9))
    scheduler.add(make_request("last", [50, 51, 52], 9, arrival_s=1.0))
    seen = []
    for _ in range(3):
        planned = plan(scheduler)
        seen.append(shares(planned))
        commit(scheduler, planned)
    assert seen == [{"short": 2, "long": 3, "last": 1}, {"long": 3, "last": 2}, {"long": 3, "last": 1}]


def test_only_the_last_chunk_is_sampled() -> None:
    scheduler = make_scheduler(budget_tokens=8)
    scheduler.add(make_request("a", range(1, 17)))
    assert [event.token_id for event in step(scheduler)] == []
    assert [event.token_id for event in step(scheduler)] == [5]


def test_no_more_run_than_may() -> None:
    scheduler = make_scheduler(max_running=2)
    for name in "abc":
        scheduler.add(make_request(name, [ord(name)], 2))
    assert set(shares(plan(scheduler))) == {"a", "b"}
    assert scheduler.stats.num_running == 2
    assert scheduler.stats.num_waiting == 1


def test_events_carry_the_token_its_logprobs_and_what_was_cached() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_request("a", range(1, 10), 1))
    step(scheduler)
    scheduler.add(make_request("b", range(1, 10), 2))
    planned = plan(scheduler)
    assert planned.slices[0].start == 8
    top = (TokenLogprob(7, -0.5), TokenLogprob(8, -1.5))
    (event,) = scheduler.commit(StepResult(planned.step_id, (SampledToken("b", 7, -0.5, top),)), 0.0)
    assert sent(event) == ("b", 7, 8, None)
    assert (event.logprob, event.top_logprobs) == (-0.5, top)
    assert [event.num_cached_tokens for event in step(scheduler)] == [8]


def test_max_tokens_ends_a_request_with_its_last_token() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_request("a", [1, 2], 2))
    assert [event.finish_reason for event in step(scheduler)] == [None]
    assert [sent(event) for event in step(scheduler)] == [("a", 5, 0, FinishReason.LENGTH)]
    assert not scheduler.has_work
    assert scheduler.stats.num_blocks_used == 0


def test_a_full_context_ends_a_request() -> None:
    scheduler = make_scheduler(max_model_tokens=6)
    scheduler.add(make_request("a", [1, 2, 3, 4], 50))
    assert [step(scheduler)[0].finish_reason for _ in range(2)] == [None, FinishReason.LENGTH]


def test_an_end_token_ends_a_request_and_is_sent() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_request("a", [1], 1))
    assert [sent(event) for event in step(scheduler, EOS)] == [("a", EOS, 0, FinishReason.STOP)]


def test_a_stop_token_ends_a_request() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_request("a", [1], 9, stop_token_ids=(8,), ignore_eos=True))
    assert step(scheduler, EOS)[0].finish_reason is None
    assert step(scheduler, 8)[0].finish_reason is FinishReason.STOP


def test_stop_tokens_count_only_behind_min_tokens() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_request("a", [1], 9, min_tokens=2))
    assert [step(scheduler, EOS)[0].finish_reason for _ in range(3)] == [None, None, FinishReason.STOP]


def test_a_finished_request_leaves_with_the_next_plan() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_request("a", [1], 1))
    scheduler.add(make_request("b", [2], 2))
    step(scheduler)
    assert plan(scheduler).left == ("a",)


def test_the_next_turn_reuses_prompt_and_answer() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_request("turn 1", range(1, 7), 7))
    while scheduler.has_work:
        step(scheduler)
    scheduler.add(make_request("turn 2", [*range(1, 7), *[5] * 7, 60, 61], 2))
    assert plan(scheduler).slices[0].start == 12


def test_a_resumed_request_goes_on_behind_what_was_delivered() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_request("a", [1, 2], 4, output_ids=(7, 8)))
    planned = plan(scheduler)
    assert planned.entered[0].token_ids == packed([1, 2, 7, 8])
    assert planned.entered[0].num_prompt_tokens == 2
    commit(scheduler, planned)
    assert step(scheduler)[0].finish_reason is FinishReason.LENGTH
    assert scheduler.drain_records()[0].num_output_tokens == 4


def test_of_a_resumed_request_only_the_prompt_counts_as_cached() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_request("a", range(1, 13), 1))
    step(scheduler)
    scheduler.add(make_request("b", range(1, 7), 9, output_ids=tuple(range(7, 14))))
    planned = plan(scheduler)
    assert planned.slices[0].start == 12
    assert commit(scheduler, planned)[0].num_cached_tokens == 6


def test_a_running_request_can_be_aborted() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_request("a", range(1, 9), 9))
    scheduler.add(make_request("b", [30], 9))
    step(scheduler)
    assert sent(scheduler.abort("a")) == ("a", None, 0, FinishReason.ABORT)
    assert scheduler.stats.num_blocks_used == 1
    assert plan(scheduler).left == ("a",)


def test_a_waiting_request_can_be_aborted() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_request("a", [1]))
    assert sent(scheduler.abort("a")) == ("a", None, 0, FinishReason.ABORT)
    assert scheduler.plan(0.0) is None


def test_a_request_whose_text_is_complete_is_recorded_as_stopped() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_request("a", [1], 9))
    step(scheduler)
    assert sent(scheduler.abort("a", FinishReason.STOP)) == ("a", None, 0, FinishReason.STOP)
    assert scheduler.drain_records()[0].finish_reason is FinishReason.STOP


def test_a_request_can_be_aborted_while_its_step_runs() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_request("a", [1]))
    scheduler.add(make_request("b", [2]))
    planned = plan(scheduler)
    scheduler.abort("a")
    assert [event.request_id for event in commit(scheduler, planned)] == ["b"]
    assert plan(scheduler).left == ("a",)


def test_aborting_what_is_unknown_or_over_does_nothing() -> None:
    scheduler = make_scheduler()
    assert scheduler.abort("never seen") is None
    scheduler.add(make_request("a", [1], 1))
    step(scheduler)
    assert scheduler.abort("a") is None


def test_an_id_can_be_used_again_when_its_request_is_over() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_request("a", [1], 9))
    step(scheduler)
    with pytest.raises(InvalidRequest, match="'a' is in use"):
        scheduler.add(make_request("a", [1]))
    scheduler.abort("a")
    scheduler.add(make_request("a", [2]))
    planned = plan(scheduler)
    assert planned.left == ("a",)
    assert planned.entered[0].token_ids == packed([2])


def test_records_that_nobody_reads_are_bounded() -> None:
    scheduler = make_scheduler()
    for number in range(MAX_UNREAD_RECORDS + 1):
        scheduler.add(make_request(str(number), [1]))
        scheduler.abort(str(number))
    records = scheduler.drain_records()
    assert len(records) == MAX_UNREAD_RECORDS
    assert records[0].request_id == "1"


def test_the_record_of_a_request_has_its_times_and_counts() -> None:
    scheduler = make_scheduler(budget_tokens=8, max_running=1)
    scheduler.add(make_request("a", range(1, 13), 2, arrival_s=1.0))
    for now_s in (2.0, 3.0, 4.0):
        planned = plan(scheduler, now_s)
        commit(scheduler, planned, now_s=now_s + 0.5)
    (record,) = scheduler.drain_records()
    assert (record.arrived_s, record.started_s, record.first_token_s, record.finished_s) == (1.0, 2.0, 3.5, 4.5)
    assert (record.num_prompt_tokens, record.num_output_tokens, record.num_cached_tokens) == (12, 2, 0)
    assert (record.num_preemptions, record.finish_reason) == (0, FinishReason.LENGTH)
    assert scheduler.drain_records() == []


def test_the_record_of_a_request_names_its_span() -> None:
    scheduler, trace = make_scheduler(), f"00-{'1' * 32}-{'2' * 16}-01"
    scheduler.add(replace(make_request("a", [1]), trace=trace))
    scheduler.abort("a")
    assert [record.trace for record in scheduler.drain_records()] == [trace]


def test_a_request_aborted_before_it_started_has_no_start() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_request("a", [1], arrival_s=3.0))
    scheduler.abort("a")
    (record,) = scheduler.drain_records()
    assert (record.started_s, record.first_token_s, record.finished_s) == (None, None, 3.0)
    assert record.finish_reason is FinishReason.ABORT


def test_a_step_must_be_committed_before_the_next() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_request("a", [1]))
    plan(scheduler)
    with pytest.raises(EngineError, match="step 1 was planned but not committed"):
        scheduler.plan(0.0)


@pytest.mark.parametrize(
    "result",
    [
        StepResult(2, (SampledToken("a", 5),)),
        StepResult(1, ()),
        StepResult(1, (SampledToken("a", 5), SampledToken("b", 5))),
        StepResult(1, (SampledToken("b", 5),)),
    ],
)
def test_a_result_that_is_not_of_the_plan_is_refused(result: StepResult) -> None:
    scheduler = make_scheduler()
    scheduler.add(make_request("a", [1]))
    plan(scheduler)
    with pytest.raises(EngineError):
        scheduler.commit(result, 0.0)


def test_a_step_is_committed_once() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_request("a", [1]))
    planned = plan(scheduler)
    commit(scheduler, planned)
    with pytest.raises(EngineError, match="1 is the last planned"):
        commit(scheduler, planned)


def test_nothing_is_computed_of_who_is_paused_and_its_wait_makes_no_token_late() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_request("a", range(1, 4), 3))
    scheduler.add(make_request("b", range(1, 4), 8))
    step(scheduler)
    scheduler.pause("a")
    assert shares(plan_and_commit(scheduler)) == {"b": 1}
    scheduler.proceed("a", now_s=1000.0)
    step(scheduler, now_s=1000.0)
    step(scheduler, now_s=1000.0)

    (ended,) = scheduler.drain_records()
    assert ended.request_id == "a"
    assert ended.num_late_tokens == 0


def test_while_all_are_paused_there_is_no_step() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_request("a", range(1, 4), 3))
    step(scheduler)
    scheduler.pause("a")
    assert scheduler.plan(0.0) is None
    scheduler.proceed("a", now_s=0.0)
    assert scheduler.plan(0.0) is not None
