"""Random traffic against the real scheduler and cache, on a runner that notices every wrong block."""

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tailrace.errors import ContextTooLong, Overloaded
from tailrace.kvcache.cache import KvCacheConfig
from tailrace.scheduler.plan import StepPlan
from tailrace.scheduler.scheduler import SchedulerConfig
from tailrace.types import Request
from tests.support.simulation import EOS_ID, SimulatedEngine, make_request


@st.composite
def schedulers(draw: st.DrawFn) -> SchedulerConfig:
    max_running = draw(st.integers(1, 6))
    return SchedulerConfig(
        budget_tokens=draw(st.integers(max_running, max_running + 12)),
        max_running=max_running,
        max_waiting=draw(st.integers(1, 12)),
        max_waiting_tokens=draw(st.integers(1, 200)),
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


class SchedulerMachine(RuleBasedStateMachine):
    @initialize(
        config=schedulers(),
        num_blocks=st.integers(1, 20),
        block_tokens=st.integers(1, 4),
        window_tokens=st.none() | st.integers(1, 24),
    )
    def start(self, config: SchedulerConfig, num_blocks: int, block_tokens: int, window_tokens: int | None) -> None:
        kv = KvCacheConfig(num_blocks, block_tokens, ("model",), window_tokens)
        self.engine = SimulatedEngine(config, kv, vocabulary=6)
        self.planned: StepPlan | None = None
        self.num_added = 0

    @rule(request=requests())
    def add(self, request: Request) -> None:
        request = replace(request, request_id=f"r{self.num_added}")
        before = self.engine.scheduler.stats
        try:
            self.engine.add(request)
            self.num_added += 1
        except (ContextTooLong, Overloaded):
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

    @invariant()
    def the_cache_is_sound(self) -> None:
        self.engine.cache.check()

    @invariant()
    def bounds_hold(self) -> None:
        stats, config = self.engine.scheduler.stats, self.engine.config
        assert stats.num_running <= config.max_running
        assert stats.num_waiting <= config.max_waiting + config.max_running  # the preempted come on top

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
TestSchedulerMachine.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
