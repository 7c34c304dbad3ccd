import threading
from collections.abc import Callable

import pytest

from tailrace.engine.engine import Engine
from tailrace.engine.intake import Intake, IntakeConfig
from tailrace.errors import CheckpointError, Overloaded, RefusalReason
from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.records import BeginningRecord, LoadRecord, Record, RequestRecord, StepProfile, StepRecord
from tailrace.scheduler.plan import SampledToken, StepPlan, StepResult
from tailrace.scheduler.scheduler import Scheduler, SchedulerConfig
from tailrace.types import CacheAnswer, FinishReason, OpTime, Refusal, Request, SamplingParams, TokenEvent


class CountingRunner:
    """Draws 100, 101, ... for each sequence, by position; fails when told to."""

    def __init__(self) -> None:
        self.fail = False
        self.failure: Exception = RuntimeError("the device is gone")
        self.ops: tuple[OpTime, ...] = ()

    def run(self, plan: StepPlan) -> StepResult:
        if self.fail:
            raise self.failure
        return StepResult(
            plan.step_id,
            tuple(
                SampledToken(part.request_id, 100 + part.start + part.num_tokens)
                for part in plan.slices
                if part.is_sampled
            ),
            ops=self.ops,
        )


class Bench:
    """An engine with everything it said."""

    def __init__(self, max_queued: int = 4) -> None:
        self.events: list[TokenEvent] = []
        self.answers: list[CacheAnswer] = []
        self.records: list[Record] = []
        self.now_s = 0.0
        self.tick_s = 1.0  # that pass whenever the clock is read
        self.runner = CountingRunner()
        self.began_s = self.tick_s  # when the engine reads the clock first
        self.intake = Intake(IntakeConfig(max_queued, max_queued_tokens=640, max_model_tokens=32), self._tick)
        scheduler = Scheduler(
            SchedulerConfig(budget_tokens=8, max_running=2, max_model_tokens=32, eos_ids=()),
            KvCache(KvCacheConfig(num_blocks=16, block_tokens=4, root_parts=("m",))),
        )
        self.engine = Engine(
            scheduler,
            self.runner,
            self.intake,
            publish=self.events.extend,
            reply=self.answers.append,
            emit=self.records.append,
            clock=self._tick,
        )

    def _tick(self) -> float:
        self.now_s += self.tick_s
        return self.now_s

    def submit(self, name: str, num_prompt_tokens: int = 3, max_tokens: int = 3) -> None:
        self.intake.submit(
            Request(
                name,
                tuple(range(ord(name[0]), ord(name[0]) + num_prompt_tokens)),
                SamplingParams(max_tokens=max_tokens),
            )
        )

    def run(self) -> None:
        self.engine.drain_intake()
        while self.engine.step():
            self.engine.drain_intake()

    def tokens(self, name: str) -> list[int | None]:
        return [event.token_id for event in self.events if event.request_id == name]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_request_is_computed_to_its_end(bench: Bench) -> None:
    bench.submit("a")
    bench.run()

    assert bench.tokens("a") == [103, 104, 105]
    assert bench.events[-1].finish_reason is FinishReason.LENGTH
    assert not bench.engine.step()


def test_steps_and_requests_are_recorded(bench: Bench) -> None:
    bench.submit("a", num_prompt_tokens=5)
    bench.submit("b", num_prompt_tokens=5)
    bench.run()

    steps = [record for record in bench.records if isinstance(record, StepRecord)]
    requests = [record for record in bench.records if isinstance(record, RequestRecord)]
    assert sum(step.num_tokens for step in steps) == 10 + 2 * 2  # prompts, then two decodes each
    assert sum(step.num_sampled for step in steps) == 6
    assert all(s.started_s < s.planned_s < s.computed_s < s.finished_s for s in steps)
    assert {record.request_id: record.num_output_tokens for record in requests} == {"a": 3, "b": 3}
    for record in requests:
        assert record.started_s is not None
        assert record.first_token_s is not None
        assert 0 < record.arrived_s < record.started_s < record.first_token_s < record.finished_s


def test_of_a_users_request_it_is_told_when_it_has_its_first_token(bench: Bench) -> None:
    bench.submit("a", num_prompt_tokens=5)
    bench.submit("b", num_prompt_tokens=5, max_tokens=1)
    bench.intake.submit(Request("w", range(200, 205), SamplingParams(max_tokens=1), is_warmup=True))
    bench.intake.submit(Request("r", range(300, 305), SamplingParams(max_tokens=3), output_ids=(305,)))
    bench.run()

    beginnings = {record.request_id: record for record in bench.records if isinstance(record, BeginningRecord)}
    ends = {record.request_id: record for record in bench.records if isinstance(record, RequestRecord)}
    places = {id(record): place for place, record in enumerate(bench.records)}
    assert set(beginnings) == {"a", "b"}
    assert set(ends) == {"a", "b", "w", "r"}
    for request_id, beginning in beginnings.items():
        ended = ends[request_id]
        assert (beginning.arrived_s, beginning.started_s) == (ended.arrived_s, ended.started_s)
        assert (beginning.first_token_s, beginning.prefix) == (ended.first_token_s, ended.prefix)
        assert beginning.num_prompt_tokens == 5
        assert places[id(beginning)] < places[id(ended)]
    assert (ends["a"].num_resumed_tokens, ends["a"].max_tokens) == (0, 3)
    assert ends["r"].num_resumed_tokens == 1


def test_the_first_token_of_a_request_says_how_it_came_about(bench: Bench) -> None:
    bench.submit("a", num_prompt_tokens=20)
    bench.run()

    first, *others = bench.events
    steps = [record for record in bench.records if isinstance(record, StepRecord)]
    (record,) = [record for record in bench.records if isinstance(record, RequestRecord)]
    beginning = first.beginning
    assert beginning is not None
    assert [event.beginning for event in others] == [None, None]
    assert [chunk.num_tokens for chunk in beginning.chunks] == [7, 7, 6]  # eight a step, cut evenly
    assert [chunk[:2] for chunk in beginning.chunks] == [(step.planned_s, step.computed_s) for step in steps[:3]]
    assert record.arrived_s < beginning.taken_s < beginning.started_s == steps[0].planned_s
    assert beginning.computed_s == record.first_token_s == steps[2].computed_s
    assert [step.prompts for step in steps] == [(("a", 7),), (("a", 7),), (("a", 6),), (), ()]


def test_who_ends_without_a_token_is_followed_no_more(bench: Bench) -> None:
    bench.intake.submit(Request("refused", (-1,), SamplingParams(max_tokens=2)))
    bench.submit("aborted", num_prompt_tokens=20)
    bench.engine.drain_intake()
    bench.engine.step()
    bench.intake.abort("aborted")
    bench.run()
    bench.submit("refused", num_prompt_tokens=2)  # its names may be used again
    bench.submit("aborted", num_prompt_tokens=2)
    bench.run()

    assert [event.beginning is None for event in bench.events if event.finish_reason is not None] == [True] * 4
    beginnings = {event.request_id: event.beginning for event in bench.events if event.beginning is not None}
    assert {name: len(each.chunks) for name, each in beginnings.items()} == {"refused": 1, "aborted": 1}
    assert all(each.num_preemptions == 0 for each in beginnings.values())


def test_where_the_time_of_a_step_went_is_recorded_when_it_is_known(bench: Bench) -> None:
    bench.submit("a", max_tokens=3)
    bench.engine.drain_intake()
    bench.engine.step()
    bench.runner.ops = ops = (OpTime("linear", 0.5, 100.0, 200.0),)
    bench.engine.step()
    bench.submit("b", num_prompt_tokens=5)
    bench.engine.drain_intake()
    bench.engine.step()

    steps = [record for record in bench.records if isinstance(record, StepRecord)]
    _, *took_s = [step.computed_s - step.planned_s for step in steps]
    profiles = [record for record in bench.records if isinstance(record, StepProfile)]
    assert profiles == [StepProfile(2, took_s[0], ops), StepProfile(3, took_s[1], ops, has_prompts=True)]


def test_the_time_of_the_loop_is_in_its_parts_without_a_gap(bench: Bench) -> None:
    bench.submit("a", num_prompt_tokens=5)
    bench.run()
    bench.engine.tidy()

    steps = [record for record in bench.records if isinstance(record, StepRecord)]
    parts = bench.engine.wall_time.seconds()
    assert sum(parts.values()) == bench.now_s - bench.began_s
    assert parts["compute"] == sum(step.computed_s - step.planned_s for step in steps)
    assert parts["plan"] == sum(step.planned_s - step.started_s for step in steps) + 1.0, "and once there was no plan"
    assert parts["publish"] >= sum(step.finished_s - step.computed_s for step in steps)
    assert parts["intake"] > 0.0
    assert parts["tidy"] > 0.0


def test_an_aborted_request_ends_once_and_is_recorded(bench: Bench) -> None:
    bench.submit("a", max_tokens=20)
    bench.engine.drain_intake()
    bench.engine.step()
    bench.intake.abort("a")
    bench.intake.abort("never heard of")
    bench.run()

    assert [event.finish_reason for event in bench.events] == [None, FinishReason.ABORT]
    assert any(isinstance(r, RequestRecord) and r.finish_reason is FinishReason.ABORT for r in bench.records)
    assert bench.intake.num_queued == 0
    load = bench.records[-1]
    assert isinstance(load, LoadRecord)
    assert (load.num_running, load.num_waiting, load.num_blocks_used) == (0, 0, 0)


def test_a_request_that_the_scheduler_refuses_ends_with_an_error(bench: Bench) -> None:
    bench.intake.submit(Request("a", (-1,), SamplingParams(max_tokens=2)))
    bench.run()

    (end,) = bench.events
    assert end.finish_reason is FinishReason.ERROR
    assert end.error == "token ids must lie in [0, 4294967295]: found -1 and -1"
    assert bench.intake.num_queued == 0
    assert bench.intake.request_ids == ()


def test_a_request_that_the_scheduler_refuses_for_now_ends_with_its_reason(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_scheduler: Scheduler, _request: Request) -> None:
        raise Overloaded("too late", retry_after_s=3.0, reason=RefusalReason.TARGET_UNREACHABLE)

    monkeypatch.setattr(Scheduler, "add", refuse)
    bench.submit("a")
    bench.run()

    (end,) = bench.events
    assert (end.finish_reason, end.error) == (FinishReason.ERROR, None)
    assert end.refusal == Refusal(RefusalReason.TARGET_UNREACHABLE, "too late", 3.0)


def test_a_request_that_is_aborted_before_it_is_looked_at_costs_no_look(bench: Bench) -> None:
    bench.submit("a")
    bench.intake.abort("a")
    bench.run()

    assert [event.finish_reason for event in bench.events] == [FinishReason.ABORT]
    (record,) = [record for record in bench.records if isinstance(record, RequestRecord)]
    assert (record.finish_reason, record.num_prompt_tokens, record.started_s) == (FinishReason.ABORT, 3, None)
    assert record.class_name == "silver"
    assert bench.intake.request_ids == ()


def test_streams_go_on_while_a_storm_is_taken_in() -> None:
    bench = Bench(max_queued=100)
    bench.submit("a", max_tokens=20)
    bench.engine.drain_intake()
    bench.engine.step()  # of two looks at the clock: a piece takes as long as one of them, more than its share
    for number in range(40):
        bench.submit(f"r{number}")
        bench.intake.abort(f"r{number}")
    for count in (16, 32, 40):
        bench.engine.drain_intake()
        bench.engine.step()
        assert sum(event.finish_reason is FinishReason.ABORT for event in bench.events) == count
    assert len(bench.tokens("a")) == 4


def test_the_queue_counts_a_request_until_it_runs(bench: Bench) -> None:
    for name in "abc":
        bench.submit(name, max_tokens=5)
    bench.engine.drain_intake()
    bench.engine.step()

    assert bench.intake.num_queued == 1  # two run, one waits


def in_thread(bench: Bench, meanwhile: Callable[[], None]) -> None:
    thread = threading.Thread(target=bench.engine.run_forever)
    thread.start()
    meanwhile()
    thread.join(timeout=10)
    assert not thread.is_alive()


def test_closing_ends_the_loop_and_live_requests(bench: Bench) -> None:
    bench.submit("a", max_tokens=29)
    bench.engine.drain_intake()
    bench.engine.step()
    bench.submit("b")
    bench.intake.close()
    in_thread(bench, lambda: None)

    ends = {event.request_id: event.finish_reason for event in bench.events if event.finish_reason is not None}
    assert ends == {"a": FinishReason.ERROR, "b": FinishReason.ERROR}


def test_a_failing_step_ends_every_request_with_an_error_and_the_loop(bench: Bench) -> None:
    bench.submit("a", max_tokens=29)
    bench.engine.drain_intake()
    bench.engine.step()
    bench.runner.fail = True
    bench.submit("b")
    in_thread(bench, lambda: None)

    ends = {event.request_id: event.error for event in bench.events if event.finish_reason is FinishReason.ERROR}
    assert set(ends) == {"a", "b"}
    assert all(error == "the engine failed; see the server's log" for error in ends.values())


def test_a_part_of_the_model_that_cannot_be_read_ends_it_with_the_reason(bench: Bench) -> None:
    bench.runner.fail = True
    bench.runner.failure = CheckpointError("model.gguf: tensor 'x' is damaged")
    bench.submit("a")
    in_thread(bench, lambda: None)

    (error,) = [event.error for event in bench.events if event.finish_reason is FinishReason.ERROR]
    assert error == "the engine ended: model.gguf: tensor 'x' is damaged"


def test_an_engine_left_alone_gives_all_memory_back_and_says_so(bench: Bench) -> None:
    bench.submit("a")
    bench.run()
    for _ in range(1_000):  # a second each
        bench.engine.tidy()

    told = [record.pool for record in bench.records if isinstance(record, LoadRecord)]
    assert [pool.num_idle for pool in told] == [0, 0]
    assert [pool.num_committed_chunks for pool in told] == [1, 0]
    assert told[-1].num_swept_total == 1


def test_the_pool_is_looked_at_now_and_then_while_a_stream_only_goes_on(bench: Bench) -> None:
    bench.tick_s = 0.001
    bench.submit("a", max_tokens=29)
    bench.run()

    told = [record.pool for record in bench.records if isinstance(record, StepRecord)]
    assert len(told) == 29
    assert 3 <= len({id(pool) for pool in told}) < 10
    assert (told[0].num_filling, told[0].num_committed_chunks) == (1, 1)
    assert (told[-1].num_filling, told[-1].num_sealed) == (0, 0)
