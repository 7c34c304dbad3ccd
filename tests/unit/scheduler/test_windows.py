"""A model all of whose layers have a window: long sequences in little memory."""

from dataclasses import replace

import pytest

from tailrace.errors import ContextTooLong
from tailrace.kvcache.cache import KvCacheConfig
from tailrace.scheduler.plan import SequenceSlice
from tailrace.scheduler.scheduler import SchedulerConfig
from tailrace.types import FinishReason
from tests.support.simulation import SimulatedEngine, make_request

CONFIG = SchedulerConfig(
    budget_tokens=64,
    max_running=8,
    max_model_tokens=20_000,
    eos_ids=(),
)


def engine_with(
    num_blocks: int, window_tokens: int | None, *, block_tokens: int = 4, budget_tokens: int = 64
) -> SimulatedEngine:
    config = replace(CONFIG, budget_tokens=budget_tokens)
    return SimulatedEngine(config, KvCacheConfig(num_blocks, block_tokens, ("model",), window_tokens))


def prompt(number: int, num_tokens: int) -> range:
    return range(100_000 * number, 100_000 * number + num_tokens)


def run_and_watch(engine: SimulatedEngine) -> int:
    """Run to the end; the most blocks that were in use together."""
    peak = 0
    while engine.step() is not None:
        engine.cache.check()
        peak = max(peak, engine.cache.stats.num_used)
    engine.assert_nothing_leaked()
    return peak


def finish(engine: SimulatedEngine) -> None:
    engine.run_to_end()
    engine.assert_outputs_as_alone()
    engine.assert_nothing_leaked()


def test_a_long_prompt_holds_its_window_and_a_chunk() -> None:
    engine = engine_with(2_000, 256, block_tokens=16, budget_tokens=512)
    engine.add(make_request("long", prompt(1, 10_000), 40))
    assert run_and_watch(engine) <= (256 + 512) // 16 + 2
    engine.assert_outputs_as_alone()


def test_a_stream_holds_its_window() -> None:
    engine = engine_with(100, 8)
    engine.add(make_request("stream", prompt(1, 4), 200))
    assert run_and_watch(engine) == 3
    engine.assert_outputs_as_alone()


@pytest.mark.parametrize("window_tokens", [1, 2, 7, 8, 9])
def test_a_long_prompt_runs_in_the_least_memory_that_its_window_needs(window_tokens: int) -> None:
    least = KvCacheConfig(1, 4, (), window_tokens).blocks_at_once(1_000)
    engine = engine_with(least, window_tokens)
    engine.add(make_request("long", prompt(1, 300), 40))
    assert run_and_watch(engine) == least
    engine.assert_outputs_as_alone()


def test_what_the_window_cannot_fit_is_refused() -> None:
    engine = engine_with(2, 6)
    with pytest.raises(ContextTooLong, match="need room for 12 tokens and the KV cache holds 8"):
        engine.add(make_request("r", prompt(1, 8), 5))
    engine.add(make_request("r", prompt(1, 4), 5))


def test_the_plan_says_which_blocks_leave_and_where_the_table_begins() -> None:
    engine = engine_with(16, 5, budget_tokens=8)
    engine.add(make_request("r", range(1, 20), 3))
    plans = engine.run_to_end()
    assert [part for plan in plans for part in plan.slices] == [
        SequenceSlice("r", 0, 7, is_sampled=False, new_blocks=(0, 1)),
        SequenceSlice("r", 7, 6, is_sampled=False, new_blocks=(2, 3)),
        SequenceSlice("r", 13, 6, is_sampled=True, new_blocks=(4,), num_released=2),
        SequenceSlice("r", 19, 1, is_sampled=True, num_released=1),
        SequenceSlice("r", 20, 1, is_sampled=True, new_blocks=(5,), num_released=1),
    ]


def test_a_hit_enters_behind_the_blocks_it_does_not_need() -> None:
    engine = engine_with(16, 5)
    engine.add(make_request("first", range(1, 20), 1))
    engine.run_to_end()
    engine.add(make_request("again", range(1, 20), 1))
    plan = engine.step()
    assert plan is not None
    (part,) = plan.slices
    assert (part.start, part.num_tokens, len(part.new_blocks), part.num_released) == (16, 3, 2, 3)
    assert engine.events["again"][0].num_cached_tokens == 16
    engine.assert_outputs_as_alone()


def test_the_next_turn_finds_what_is_left_of_a_conversation() -> None:
    """Its beginning has made room for others."""
    engine = engine_with(12, 8)
    engine.add(make_request("turn 1", prompt(1, 40), 9))
    engine.run_to_end()
    engine.add(make_request("other", prompt(2, 24), 1))
    engine.run_to_end()
    engine.add(make_request("turn 2", [*prompt(1, 40), *engine.outputs["turn 1"], 7, 8, 9], 3))
    engine.run_to_end()
    assert engine.events["turn 2"][0].num_cached_tokens == 48
    assert engine.events["other"][0].num_cached_tokens == 0
    finish(engine)


def test_long_prompts_beside_each_other_take_what_there_is() -> None:
    """Each needs 100 blocks in all, and 12 are there."""
    engine = engine_with(12, 9, budget_tokens=16)
    for number in range(4):
        engine.add(make_request(f"r{number}", prompt(number, 400), 30))
    finish(engine)
    assert set(engine.finished.values()) == {FinishReason.LENGTH}


def test_a_chunk_costs_the_streams_beside_it_no_block() -> None:
    """It takes all that there are, and has given back what is more than its window when they need the next."""
    engine = engine_with(6, 8, budget_tokens=32)
    engine.add(make_request("stream", prompt(1, 1), 40))
    engine.step()
    engine.add(make_request("long", prompt(2, 200), 2))
    planned = engine.plan()
    assert planned is not None
    assert engine.cache.stats.num_used == 6
    engine.commit(engine.runner.run(planned))
    finish(engine)
    assert engine.scheduler.stats.num_preempted_total == 0


def test_a_preempted_request_resumes_by_what_its_window_shows() -> None:
    engine = engine_with(6, 12)
    engine.add(make_request("old", prompt(1, 5), 60))
    engine.step()
    engine.add(make_request("young", prompt(2, 5), 60))
    computed = engine.runner.num_computed_tokens
    finish(engine)
    assert engine.scheduler.stats.num_preempted_total > 0
    assert engine.runner.num_computed_tokens - computed < 3 * 64


def test_an_abort_in_the_middle_of_a_long_prompt_gives_everything_back() -> None:
    engine = engine_with(40, 8, budget_tokens=16)
    engine.add(make_request("long", prompt(1, 400), 2))
    for _ in range(5):
        engine.step()
    engine.abort("long")
    engine.assert_nothing_leaked()
    engine.add(make_request("again", prompt(1, 400), 2))
    finish(engine)
    assert engine.events["again"][0].num_cached_tokens > 0


def test_a_follower_waits_for_a_leader_whose_window_moves_on() -> None:
    engine = engine_with(20, 8, budget_tokens=16)
    engine.add(make_request("leader", prompt(1, 200), 20))
    engine.add(make_request("follower", [*prompt(1, 200), 5], 20))
    finish(engine)
    assert engine.events["follower"][0].num_cached_tokens == 200
    assert engine.runner.num_computed_tokens < 200 + 60
