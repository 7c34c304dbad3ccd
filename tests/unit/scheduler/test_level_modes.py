"""Levels that requests do not wait for: passed over, asked by a sample, or fetched from for the next one."""

from collections.abc import Sequence

from tailrace.kvcache.cache import KvCacheConfig
from tailrace.kvcache.transfer import Lookup
from tailrace.scheduler.level_modes import SAMPLE, LevelModes
from tailrace.scheduler.scheduler import SchedulerConfig
from tailrace.types import Level, LevelMode, MissReason, PrefixReport
from tests.support.simulation import SimulatedEngine, make_request

PROMPT = list(range(100, 142))  # ten blocks and two tokens
REDIS = frozenset({Level.REDIS})


class Bench(SimulatedEngine):
    """An engine with some levels below, whose cache others can be made to take."""

    def __init__(self, *levels: Level) -> None:
        config = SchedulerConfig(budget_tokens=16, max_running=8, max_model_tokens=200, eos_ids=())
        super().__init__(config, KvCacheConfig(50, 4, ("model",)), levels=levels)
        self.lookups: list[Lookup] = []
        self._look_up, self.store.look_up = self.store.look_up, self._note  # type: ignore[method-assign]  # a spy

    def _note(self, lookup: Lookup) -> None:
        self.lookups.append(lookup)
        self._look_up(lookup)

    def become(self, **modes: LevelMode) -> None:
        self.scheduler.below.modes.change({Level(name): mode for name, mode in modes.items()})

    def run(self, name: str, prompt: Sequence[int] = PROMPT) -> dict[Level, int]:
        """A request from its beginning to its end; what it found where."""
        self.add(make_request(name, prompt, 4))
        self.run_to_end()
        self.settle()
        self.assert_outputs_as_alone()
        prefix = self.events[name][0].prefix
        assert prefix is not None
        self.reason = prefix.reason
        return dict(prefix.num_tokens)

    def settle(self) -> None:
        """Until all that goes on behind requests is over."""
        for _ in range(5):
            self.step()

    def flush(self) -> None:
        """Let others take the engine's whole cache."""
        for number in range(3):
            self.run(
                sampled(False, f"flush{len(self.requests)}-{number}"),
                [1000 * len(self.requests) + token for token in range(180)],
            )


def sampled(is_sampled: bool, stem: str) -> str:
    """A name of a request that is of the sample, or is not."""
    modes = LevelModes()
    modes.change({Level.REDIS: LevelMode.BYPASSED})
    names = (f"{stem}.{number}" for number in range(1000))
    return next(name for name in names if (not modes.not_saved_to(name)) is is_sampled)


def test_one_request_in_eight_is_of_the_sample() -> None:
    modes = LevelModes()
    modes.change({Level.REDIS: LevelMode.BYPASSED})
    num_sampled = sum(modes.asked_behind(f"request {number}") == REDIS for number in range(8000))
    assert 0.9 < num_sampled * SAMPLE / 8000 < 1.1


def test_a_bypassed_level_is_neither_looked_up_nor_saved_to() -> None:
    bench = Bench(Level.REDIS)
    bench.become(redis=LevelMode.BYPASSED)
    assert bench.run(sampled(False, "first")) == {}
    assert bench.reason is MissReason.LEVEL_BYPASSED
    assert bench.lookups == []
    bench.become()
    bench.flush()
    assert bench.run("again") == {}, "it was not saved"


def test_who_is_of_the_sample_asks_and_saves_without_waiting() -> None:
    bench = Bench(Level.REDIS)
    bench.become(redis=LevelMode.BYPASSED)
    name = sampled(True, "first")
    bench.add(make_request(name, PROMPT, 4))
    assert bench.step() is not None, "it starts at once"
    bench.run_to_end()
    (lookup,) = bench.lookups
    assert (len(lookup.names), lookup.content) == (10, None)
    assert bench.scheduler.below.uses.totals[Level.REDIS][:3] == (SAMPLE, SAMPLE * 10, 0)
    bench.flush()
    assert bench.run(sampled(True, "second")) == {}, "nothing is fetched for it"
    assert bench.scheduler.below.uses.totals[Level.REDIS][:3] == (2 * SAMPLE, SAMPLE * 20, SAMPLE * 10)
    bench.become()
    bench.flush()
    assert bench.run("third") == {Level.REDIS: 40}, "it was saved"


def test_nearer_levels_are_used_as_ever_beside_one_that_is_bypassed() -> None:
    bench = Bench(Level.HOST, Level.REDIS)
    bench.become(redis=LevelMode.BYPASSED)
    bench.run(sampled(False, "first"))
    bench.flush()
    assert bench.run(sampled(False, "again")) == {Level.HOST: 40}
    assert all(lookup.skipped == REDIS for lookup in bench.lookups)
    assert Level.REDIS not in bench.scheduler.below.uses.totals


def test_nobody_waits_for_an_asynchronous_level_and_the_next_one_finds_what_it_had() -> None:
    bench = Bench(Level.REDIS)
    bench.run("first")
    bench.flush()
    bench.become(redis=LevelMode.ASYNCHRONOUS)
    before = bench.runner.num_computed_tokens
    bench.add(make_request("second", PROMPT, 4))
    plan = bench.step()
    assert plan is not None
    assert [entry.request_id for entry in plan.entered] == ["second"]
    bench.step()  # the level has said what it has, and it is being fetched
    assert bench.store.fetching
    bench.add(make_request("third", PROMPT, 4))
    bench.run_to_end()
    bench.assert_outputs_as_alone()
    bench.assert_nothing_leaked()
    second, third = (bench.events[name][0].prefix for name in ("second", "third"))
    assert second is not None
    assert third is not None
    assert (dict(second.num_tokens), second.reason) == ({}, MissReason.LEVEL_BYPASSED)
    assert third.num_cached_tokens == 40
    assert bench.store.num_fetched[Level.REDIS] > 0
    assert bench.runner.num_computed_tokens - before == (42 + 3) + (2 + 3)


def test_what_an_asynchronous_level_had_is_kept_on_nearer_ones() -> None:
    bench = Bench(Level.HOST, Level.REDIS)
    bench.run("first")
    bench.store.clear(Level.HOST)
    bench.flush()
    bench.become(redis=LevelMode.ASYNCHRONOUS)
    bench.run("second")
    bench.flush()
    assert bench.run("third") == {Level.HOST: 40}


def test_requests_that_want_what_is_fetched_behind_others_compute_it_and_nothing_leaks() -> None:
    bench = Bench(Level.REDIS)
    bench.run("first")
    bench.become(redis=LevelMode.ASYNCHRONOUS)
    for round_number in range(4):
        bench.flush()
        for name in ("a", "b"):
            bench.add(make_request(f"{name}{round_number}", PROMPT, 4))
        for _ in range(round_number):
            bench.step()
        bench.abort(f"a{round_number}")
        bench.run_to_end()
        bench.settle()
        bench.assert_outputs_as_alone()
    bench.assert_nothing_leaked()


def test_an_explanation_says_that_a_level_is_not_waited_for() -> None:
    bench = Bench(Level.REDIS)
    bench.run("first")
    bench.flush()
    bench.become(redis=LevelMode.BYPASSED)
    told: list[PrefixReport] = []
    bench.scheduler.below.explain(bench.cache.open(""), PROMPT, told.append)
    bench.settle()
    (report,) = told
    assert (report.num_tokens, report.reason) == ((), MissReason.LEVEL_BYPASSED)
