"""Random traffic against the real scheduler and cache, on a runner that notices every wrong block."""

from dataclasses import fields, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tailrace.errors import ContextTooLong
from tailrace.kvcache.cache import KvCacheConfig
from tailrace.scheduler.plan import StepPlan
from tailrace.scheduler.scheduler import SchedulerConfig
from tailrace.types import Level, LevelMode, PreemptionCause, Request
from tests.support.simulated_store import Faults
from tests.support.simulation import EOS_ID, SimulatedEngine, make_request, restless


@st.composite
def schedulers(draw: st.DrawFn) -> SchedulerConfig:
    max_running = draw(st.integers(1, 6))
    return SchedulerConfig(
        budget_tokens=draw(st.integers(max_running, max_running + 12)),
        max_running=max_running,
        max_model_tokens=draw(st.integers(2, 40)),
        eos_ids=(EOS_ID,),
        chunk_tokens=draw(st.none() | st.integers(1, 8)),
    )


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """Short prompts of few tokens, so that many share a beginning."""
    return make_request(
        "",
        [1] * draw(st.integers(1, 20)) + draw(st.lists(st.integers(1, 2), max_size=6)),
        draw(st.integers(1, 16)),
        seed=draw(st.integers(0, 1)),
        min_tokens=draw(st.integers(0, 4)),
        ignore_eos=draw(st.booleans()),
        cache_salt=draw(st.sampled_from(["", "", "tenant"])),
    )


@st.composite
def caches(draw: st.DrawFn) -> KvCacheConfig:
    moves_a_step = draw(st.integers(0, 6))
    return KvCacheConfig(
        draw(st.integers(1, 20)),
        draw(st.integers(1, 4)),
        ("model",),
        draw(st.none() | st.integers(1, 24)),
        chunk_tokens=draw(st.integers(1, 16)),
        compaction=restless(moves_a_step) if moves_a_step else None,
    )


@st.composite
def faults(draw: st.DrawFn) -> Faults:
    percents = st.sampled_from([0, 0, 10, 50, 90])
    return Faults(*[draw(percents) for _ in fields(Faults)])


class SchedulerMachine(RuleBasedStateMachine):
    @initialize(
        config=schedulers(),
        kv=caches(),
        levels=st.sampled_from([(), (Level.HOST,), (Level.DISK, Level.REDIS), (Level.HOST, Level.DISK, Level.REDIS)]),
        faults=faults(),
        seed=st.integers(0, 1000),
        tick_s=st.sampled_from([0.05, 1.0]),
    )
    def start(
        self,
        *,
        config: SchedulerConfig,
        kv: KvCacheConfig,
        levels: tuple[Level, ...],
        faults: Faults,
        seed: int,
        tick_s: float,
    ) -> None:
        self.engine = SimulatedEngine(config, kv, vocabulary=6, levels=levels, faults=faults, seed=seed)
        self.engine.tick_s = tick_s
        self.planned: StepPlan | None = None
        self.num_added = 0

    @rule(request=requests(), class_name=st.sampled_from(["gold", "silver", "bronze"]))
    def add(self, request: Request, class_name: str) -> None:
        name, now_s = f"r{self.num_added}", self.engine.now_s
        request = replace(request, request_id=name, class_name=class_name, arrival_s=now_s)
        before = self.engine.scheduler.stats
        try:
            self.engine.add(request)
            self.num_added += 1
        except ContextTooLong:
            assert self.engine.scheduler.stats == before

    @precondition(lambda self: self.num_added)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        self.engine.abort(f"r{data.draw(st.integers(0, self.num_added - 1))}")

    @precondition(lambda self: self.planned is None)
    @rule()
    def plan(self) -> None:
        self.planned = self.engine.plan()

    @precondition(lambda self: self.planned is not None)
    @rule()
    def commit(self) -> None:
        assert self.planned is not None
        self.engine.commit(self.engine.runner.run(self.planned))
        self.planned = None

    @precondition(lambda self: self.planned is None)
    @rule(num_steps=st.integers(1, 8))
    def step(self, num_steps: int) -> None:
        for _ in range(num_steps):
            self.engine.step()
            self.engine.cache.check()

    @precondition(lambda self: self.engine.store.levels)
    @rule(data=st.data())
    def lose_a_level(self, data: st.DataObject) -> None:
        self.engine.store.clear(data.draw(st.sampled_from(self.engine.store.levels)))

    @precondition(lambda self: self.engine.store.levels)
    @rule(data=st.data())
    def change_modes(self, data: st.DataObject) -> None:
        """As rules do, between two steps or while one runs."""
        modes = st.dictionaries(st.sampled_from(self.engine.store.levels), st.sampled_from(LevelMode))
        self.engine.scheduler.below.modes.change(data.draw(modes))

    @rule(fetch_s=st.sampled_from([0.0, 1.0]))
    def change_speed(self, fetch_s: float) -> None:
        """Whether fetching takes longer than computing, which takes no time here."""
        self.engine.store.fetch_s = fetch_s

    @invariant()
    def the_cache_is_sound(self) -> None:
        self.engine.cache.check()

    @invariant()
    def bounds_hold(self) -> None:
        stats, config = self.engine.scheduler.stats, self.engine.config
        assert stats.num_running <= config.max_running

    @invariant()
    def nobody_gives_way_more_often_than_its_class_says(self) -> None:
        for count in self.engine.scheduler.stats.preemptions:
            if count.cause is PreemptionCause.DEADLINE:
                served_class = self.engine.config.classes.named(count.class_name)
                assert served_class is not next(iter(self.engine.config.classes))
                assert count.num_requests <= served_class.max_yields * self.num_added

    @invariant()
    def every_request_is_somewhere(self) -> None:
        stats = self.engine.scheduler.stats
        assert stats.num_running + stats.num_waiting == self.num_added - len(self.engine.finished)

    def teardown(self) -> None:
        if self.planned is not None:
            self.commit()
        self.engine.run_to_end()
        self.engine.assert_nothing_leaked()
        self.engine.assert_outputs_as_alone()
        assert len(self.engine.finished) == self.num_added
        assert len(self.engine.scheduler.drain_records()) == self.num_added


TestSchedulerMachine = SchedulerMachine.TestCase
TestSchedulerMachine.settings = settings(max_examples=100, stateful_step_count=40)
