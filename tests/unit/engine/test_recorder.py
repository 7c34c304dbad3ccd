from itertools import count

from tailrace.engine.recorder import Recorder
from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.records import StepRecord
from tailrace.scheduler.plan import SampledToken, StepResult
from tailrace.scheduler.scheduler import Scheduler, SchedulerConfig
from tailrace.types import FinishReason
from tests.support.simulation import make_request


class Bench:
    """A scheduler whose steps take a hundredth of a second, and what is recorded of them."""

    def __init__(self) -> None:
        config = SchedulerConfig(budget_tokens=8, max_running=4, max_model_tokens=64, eos_ids=())
        self.scheduler = Scheduler(config, KvCache(KvCacheConfig(64, 4, ("model",))))
        ticks = count()
        self.recorder = Recorder(self.scheduler, lambda: next(ticks) / 100)

    def step(self, now_s: float) -> StepRecord:
        plan = self.scheduler.plan(now_s)
        assert plan is not None
        sampled = tuple(SampledToken(part.request_id, 7) for part in plan.slices if part.is_sampled)
        self.scheduler.commit(StepResult(plan.step_id, sampled), now_s + 0.01)
        return self.recorder.step(plan, now_s, now_s, now_s + 0.01)


def test_prompts_are_told_from_the_newest_tokens_of_sequences() -> None:
    bench = Bench()
    bench.scheduler.add(make_request("a", range(6), 8))
    record = bench.step(1.0)
    assert (record.num_tokens, record.num_sampled, record.num_prefill_tokens, record.num_context_tokens) == (6, 1, 6, 6)
    record = bench.step(1.01)
    assert (record.num_tokens, record.num_sampled, record.num_prefill_tokens, record.num_context_tokens) == (1, 1, 0, 7)


def test_whose_prompts_a_step_computed_is_recorded() -> None:
    bench = Bench()
    bench.scheduler.add(make_request("a", range(3), 8))
    assert bench.step(1.0).prompts == (("a", 3),)
    assert bench.step(1.01).prompts == ()
    bench.scheduler.add(make_request("b", range(10, 24), 8))
    assert bench.step(1.02).prompts == (("b", 7),)
    assert bench.step(1.03).prompts == (("b", 7),)
    assert bench.step(1.04).prompts == ()


def test_while_streams_only_go_on_the_pool_is_looked_at_now_and_then() -> None:
    bench = Bench()
    bench.scheduler.add(make_request("a", range(3), 60))
    first = bench.step(1.0).pool
    assert bench.step(1.05).pool is first
    bench.recorder.pool_changed()
    assert (second := bench.step(1.06).pool) is not first
    assert bench.step(1.1).pool is second
    assert bench.step(1.2).pool is not second


def test_who_was_withdrawn_is_of_the_class_that_it_would_have_been_served_in() -> None:
    record = Bench().recorder.withdrawn(make_request("a", [1, 2]), FinishReason.ABORT)
    assert (record.class_name, record.started_s, record.num_prompt_tokens) == ("silver", None, 2)
