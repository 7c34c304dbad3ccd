"""A million random operations on the real scheduler and cache, with levels below that fail in every way.

    python -m benchmarks.kvcache.soak [--operations 1000000] [--seed N] [--json]

The engine is simulated: its memory holds a digest for each position, and each step compares what it reads with what the
sequence should find there, so that no wrong block passes. Worlds of random sizes live one after the other, some with
windows, some without levels. At the end of each no block may be held, no memory lie outside its bound, and each request
must have got the tokens that it gets alone. What goes wrong is raised with the seed of its world.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields

from tailrace.classes import STANDARD
from tailrace.errors import ContextTooLong
from tailrace.kvcache.cache import KvCacheConfig
from tailrace.kvcache.config import CompactionConfig
from tailrace.kvcache.forget import Forget, Scope
from tailrace.scheduler.plan import StepPlan
from tailrace.scheduler.scheduler import SchedulerConfig
from tailrace.types import Level, Request
from tests.support.simulated_store import Faults
from tests.support.simulation import EOS_ID, SimulatedEngine, make_request, restless

__all__ = ["SoakReport", "soak"]

WORLD_OPERATIONS = 4_000
COMPUTE_S = 0.1  # of a step
MAX_WAITING = 12
AUDIT_EVERY = 25  # operations; an audit looks at every block
LEVELS = ((), (Level.HOST,), (Level.DISK, Level.REDIS), (Level.HOST, Level.DISK, Level.REDIS))


@dataclass
class SoakReport:
    """What was done, and what came of it. A leak or a wrong block would have been raised."""

    operations: Counter[str] = field(default_factory=Counter)
    num_worlds: int = 0
    num_faults: int = 0
    num_prompt_tokens: int = 0
    found_tokens: Counter[str] = field(default_factory=Counter)  # by level
    num_preempted: int = 0
    num_evicted: int = 0
    num_moves: int = 0
    num_audits: int = 0
    took_s: float = 0.0

    @property
    def num_operations(self) -> int:
        return self.operations.total()


class World:
    """One engine and the operations that can happen to it."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self.engine = _random_engine(self._draw, seed)
        self._planned: StepPlan | None = None
        self._num_added = 0
        self._operations: tuple[tuple[int, Callable[[], None]], ...] = (
            (60, self.add),
            (12, self.abort),
            (60, self.plan_or_commit),
            (60, self.step),
            (6, self.tidy),
            (2, self.forget),
            (1, self.lose_a_level),
            (2, self.change_speed),
            (1, self.wait),
        )

    def operate(self) -> str:
        """One random operation; its name."""
        weights = [weight for weight, _ in self._operations]
        ((_, operation),) = self._draw.choices(self._operations, weights)
        operation()
        return operation.__name__

    def add(self) -> None:
        if self.engine.scheduler.stats.num_waiting >= MAX_WAITING:
            return
        try:
            self.engine.add(_random_request(self._draw, f"r{self._num_added}"))
            self._num_added += 1
        except ContextTooLong:
            pass

    def abort(self) -> None:
        if self._num_added:
            self.engine.abort(f"r{self._num_added - 1 - int(self._draw.expovariate(0.2)) % self._num_added}")

    def plan_or_commit(self) -> None:
        """A step in two halves, so that others happen between them."""
        if self._planned is None:
            self._planned = self.engine.plan()
        else:
            result = self.engine.runner.run(self._planned)
            self.engine.now_s += COMPUTE_S
            self.engine.commit(result)
            self._planned = None

    def step(self) -> None:
        self.plan_or_commit()
        if self._planned is not None:
            self.plan_or_commit()

    def tidy(self) -> None:
        """What is done for the pool while nothing can be computed."""
        if self._planned is None and not self.engine.scheduler.stats.num_running:
            plan = self.engine.scheduler.tidy(self.engine.now_s)
            if plan is not None:
                self.engine.runner.run(plan)

    def forget(self) -> None:
        """Here and, of more than one block, in all levels as a whole: they know no tenants in this simulation."""
        cache, scope = self.engine.cache, self._draw.choice(list(Scope))
        table = cache.open(self._draw.choice(("", "tenant")))
        prompt = _random_prompt(self._draw)
        cache.match(table, prompt)
        target = {Scope.TENANT: table.owner.tenant, Scope.FINGERPRINT: table.owner.fingerprint}.get(scope)
        if target is None:
            if not table.names:
                return
            target = self._draw.choice(table.names)
        cache.forget(Forget(scope, target))
        self.engine.store.forget((Forget(scope, target),))
        if scope is not Scope.BLOCK:
            for level in self.engine.store.levels:
                self.engine.store.clear(level)

    def lose_a_level(self) -> None:
        if self.engine.store.levels:
            self.engine.store.clear(self._draw.choice(self.engine.store.levels))

    def change_speed(self) -> None:
        """What a fetch takes: nothing, less than computing, or more."""
        self.engine.store.fetch_s = self._draw.choice((0.0, COMPUTE_S / 10, 100 * COMPUTE_S))

    def wait(self) -> None:
        """So long that idle blocks grow stale."""
        self.engine.now_s += self._draw.choice((1.0, 60.0, 400.0, 4_000.0))

    def audit(self) -> None:
        self.engine.cache.check()
        num_blocks = self.engine.cache.config.num_blocks
        assert all(0 <= block_id < num_blocks for block_id in self.engine.runner.committed), "memory out of bounds"

    def end(self, report: SoakReport) -> None:
        """Run all requests to their end, see that nothing is left, and add up."""
        if self._planned is not None:
            self.plan_or_commit()
        engine = self.engine
        engine.run_to_end()
        engine.assert_nothing_leaked()
        engine.assert_outputs_as_alone()
        assert len(engine.finished) == self._num_added, "a request got no end"
        stats = engine.scheduler.stats
        report.num_faults += engine.store.num_faults
        report.num_preempted += stats.num_preempted_total
        report.num_evicted += stats.num_blocks_evicted_total
        report.num_moves += engine.runner.num_moves
        for events in engine.events.values():
            if events[0].prefix is not None:
                report.num_prompt_tokens += engine.requests[events[0].request_id].num_prompt_tokens
                report.found_tokens.update({level.value: count for level, count in events[0].prefix.num_tokens})


def soak(num_operations: int, seed: int, say: Callable[[int], None] = lambda _done: None) -> SoakReport:
    """Raises AssertionError naming the world's seed when anything is wrong."""
    report, started_s = SoakReport(), time.monotonic()
    while (left := num_operations - report.num_operations) > 0:
        world_seed = seed + report.num_worlds
        try:
            live(World(world_seed), min(left, WORLD_OPERATIONS), report)
        except AssertionError as error:
            raise AssertionError(f"in the world of seed {world_seed}: {error}") from error
        report.num_worlds += 1
        say(report.num_operations)
    report.took_s = time.monotonic() - started_s
    return report


def live(world: World, num_operations: int, report: SoakReport) -> None:
    for number in range(num_operations):
        report.operations[world.operate()] += 1
        if number % AUDIT_EVERY == 0:
            world.audit()
            report.num_audits += 1
    world.end(report)


def _random_engine(draw: random.Random, seed: int) -> SimulatedEngine:
    max_running = draw.randint(1, 6)
    config = SchedulerConfig(
        budget_tokens=draw.randint(max_running, max_running + 12),
        max_running=max_running,
        max_model_tokens=draw.randint(8, 40),
        eos_ids=(EOS_ID,),
        chunk_tokens=draw.choice((None, draw.randint(1, 8))),
        classes=STANDARD.patient,
    )
    window_tokens = draw.choice((None, None, draw.randint(1, 24)))
    block_tokens = draw.randint(1, 4)
    kv = KvCacheConfig(
        draw.choice((draw.randint(4, 40), draw.randint(40, 120))),
        block_tokens,
        ("model",),
        window_tokens,
        chunk_tokens=block_tokens * draw.choice((1, 2, 4, 8)),
        compaction=draw.choice((None, CompactionConfig(), restless(draw.randint(1, 8)))),
    )
    worst = draw.choice((0, 10, 90))
    faults = Faults(*[draw.choice((0, worst // 10, worst)) for _ in fields(Faults)])
    return SimulatedEngine(config, kv, vocabulary=6, levels=draw.choice(LEVELS), faults=faults, seed=seed)


def _random_request(draw: random.Random, request_id: str) -> Request:
    return make_request(
        request_id,
        _random_prompt(draw),
        draw.randint(1, 12),
        seed=draw.randint(0, 1),
        min_tokens=draw.randint(0, 4),
        ignore_eos=draw.random() < 0.5,
        cache_salt=draw.choice(("", "", "tenant")),
    )


def _random_prompt(draw: random.Random) -> list[int]:
    """Short, with one of a few beginnings: more than the cache holds, so that all levels have something to give."""
    topic = random.Random(draw.randint(0, 15))
    shared = [topic.randint(1, 2) for _ in range(20)]
    return shared[: draw.randint(1, 20)] + [draw.randint(1, 2) for _ in range(draw.randint(0, 6))]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kvcache.soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    report = soak(arguments.operations, arguments.seed, lambda done: print(f"{done:,}", end="\r", file=sys.stderr))
    if arguments.json:
        sys.stdout.write(json.dumps(asdict(report), indent=2) + "\n")
        return
    print(f"{report.num_operations:,} operations in {report.num_worlds} worlds, {report.took_s:.0f} s: ", end="")
    print(", ".join(f"{count:,} {name}" for name, count in report.operations.most_common()))
    print(f"faults injected {report.num_faults:,}; audits {report.num_audits:,}; leaks 0, wrong blocks 0")
    print(
        f"evicted {report.num_evicted:,}, moved {report.num_moves:,}, preempted {report.num_preempted:,}; "
        f"prompt tokens {report.num_prompt_tokens:,}, found: "
        + ", ".join(f"{level} {count:,}" for level, count in report.found_tokens.items())
    )


if __name__ == "__main__":
    main()
