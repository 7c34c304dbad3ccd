"""Rules act upon a scheduler, on a fake clock: looked at once a second, told of, and undone."""

import logging
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tailrace.engine.governor import Governor
from tailrace.errors import Overloaded, RefusalReason
from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.kvcache.transfer import LookupAnswer
from tailrace.records import EventKind, EventRecord, LevelReport, LoadRecord, PoolRecord, Record, RequestRecord
from tailrace.rules.rule import Action, Rule, Side, Signal
from tailrace.scheduler.scheduler import Scheduler, SchedulerConfig
from tailrace.types import FinishReason, Level, LevelMode
from tests.support.simulation import make_request

SHED = Rule(
    "gold-first",
    Signal.WAITING,
    "gold",
    Side.ABOVE,
    2,
    for_s=3,
    clear_at=1,
    clear_for_s=5,
    action=Action.SHED,
    target="bronze",
)
LATE = Rule("late", Signal.LATE_TOKENS, "gold", Side.ABOVE, 0.01, for_s=1, clear_at=0.01, clear_for_s=1)
BROKEN = Rule("broken", Signal.FAILURES, "redis", Side.ABOVE, 3, for_s=1, clear_at=0, clear_for_s=1)
REQUEST = RequestRecord("a", 0.0, 0.0, 0.0, 1.0, 10, None, 101, 0, FinishReason.LENGTH, class_name="gold")


class Bench:
    def __init__(self, *rules: Rule) -> None:
        self.told: list[Record] = []
        self.num_failures = 0
        self.num_reads = 0
        cache = KvCache(KvCacheConfig(64, 4, ("m",)))
        self.scheduler = Scheduler(
            SchedulerConfig(budget_tokens=8, max_running=2, max_model_tokens=64, eos_ids=()), cache
        )
        self.governor = Governor(
            rules, self.scheduler, self.told.append, read_levels=self._read, now_s=0.0, clock_of_day=lambda: 1.79e9
        )

    def _read(self) -> Sequence[LevelReport]:
        self.num_reads += 1
        return [LevelReport(Level.REDIS, True, 0, 0, 0, 0, 0, 0, 0.0, 0, 0, self.num_failures, 0)]

    def load(self, *waiting: int) -> None:
        self.governor.record(LoadRecord(0, sum(waiting), 16, 0, 64, PoolRecord(), waiting_by_class=waiting))

    def look(self, first_s: int, last_s: int) -> None:
        for now_s in range(first_s, last_s + 1):
            self.governor.look(float(now_s))

    def refusal(self, class_name: str) -> Overloaded | None:
        try:
            self.scheduler.add(replace(make_request(class_name, [1, 2, 3]), class_name=class_name))
        except Overloaded as refused:
            return refused
        self.scheduler.abort(class_name)
        return None

    @property
    def events(self) -> list[tuple[EventKind, str]]:
        return [(record.kind, record.rule) for record in self.told if isinstance(record, EventRecord)]


def test_the_least_class_is_shed_while_the_rule_holds_and_then_let_in_again(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(SHED)
    bench.load(3, 0, 0)
    bench.look(0, 2)
    assert bench.refusal("bronze") is None
    with caplog.at_level(logging.WARNING):
        bench.look(3, 4)
    refused = bench.refusal("bronze")
    assert refused is not None
    assert (refused.reason, refused.status) == (RefusalReason.SHED, 429)
    assert refused.retry_after_s >= 5.0, "it takes that long to clear"
    assert bench.refusal("gold") is None
    assert bench.refusal("silver") is None
    assert caplog.messages == [
        "rule gold-first fired: waiting of gold above 2 for 3 s (now 3): shed bronze",
    ]

    bench.load(0, 0, 0)
    bench.look(5, 9)
    assert bench.refusal("bronze") is not None
    bench.look(10, 10)
    assert bench.refusal("bronze") is None
    assert bench.events == [(EventKind.RULE_FIRED, "gold-first"), (EventKind.RULE_CLEARED, "gold-first")]


def test_who_was_let_in_before_is_never_shed() -> None:
    bench = Bench(SHED)
    bench.load(3, 0, 0)
    bench.look(0, 3)
    resumed = replace(make_request("old", [1, 2, 3]), class_name="bronze", is_resumed=True)
    bench.scheduler.add(resumed)
    assert bench.scheduler.has_work


def test_it_looks_once_a_second_however_often_it_is_asked() -> None:
    bench = Bench(BROKEN)
    for tenth in range(31):
        bench.governor.look(tenth / 10)
    assert bench.num_reads == 4


def test_levels_are_asked_for_nothing_where_no_rule_wants_to_know() -> None:
    bench = Bench(SHED)
    bench.look(0, 10)
    assert bench.num_reads == 0


def test_failures_of_a_level_fire_a_warning() -> None:
    bench = Bench(BROKEN)
    bench.look(0, 1)
    bench.num_failures = 4
    bench.look(2, 3)
    assert bench.events == [(EventKind.RULE_FIRED, "broken")]


def test_late_tokens_of_users_count_and_those_of_warm_ups_do_not() -> None:
    bench = Bench(LATE)
    for now_s in range(4):
        bench.governor.record(replace(REQUEST, num_late_tokens=50, is_warmup=True))
        bench.governor.record(replace(REQUEST, num_late_tokens=1))
        bench.governor.look(float(now_s))
    assert bench.events == [], "one of a hundred is within the P99"
    for now_s in range(4, 6):
        bench.governor.record(replace(REQUEST, num_late_tokens=50))
        bench.governor.look(float(now_s))
    assert bench.events == [(EventKind.RULE_FIRED, "late")]
    (report,) = bench.governor.reports()
    assert report.signal == pytest.approx((4 * 1 + 2 * 50) / 600)


def test_an_engine_without_rules_looks_at_nothing() -> None:
    bench = Bench()
    bench.look(0, 10)
    assert bench.told == []
    assert list(bench.governor.reports()) == []


def test_a_level_with_next_to_nothing_is_bypassed_and_comes_back() -> None:
    rule = Rule(
        "cold",
        Signal.HIT_RATE,
        "redis",
        Side.BELOW,
        0.6,
        for_s=3,
        clear_at=0.6,
        clear_for_s=2,
        action=Action.BYPASS,
        target="redis",
        window_s=4,
        min_samples=1,
    )
    bench, modes = Bench(rule), []
    below = bench.scheduler.below
    for now_s in range(16):
        bench.look(now_s, now_s)
        found = (Level.REDIS,) * (0 if now_s < 5 else 10)
        below.uses.looked_up(LookupAnswer(1, found, asked=((Level.REDIS, 0.25),)), 10)
        modes.append(below.modes.of(Level.REDIS))
    assert modes[0] is modes[-1] is LevelMode.NORMAL
    assert modes[5] is LevelMode.BYPASSED
    assert bench.events == [(EventKind.RULE_FIRED, "cold"), (EventKind.RULE_CLEARED, "cold")]
