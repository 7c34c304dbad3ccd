"""Events are kept, counted and seen from all processes."""

from itertools import count

from tailrace.records import EventKind, EventRecord
from tailrace.telemetry.events import EventLog
from tailrace.telemetry.prometheus import Metrics

_clock = count(1_790_000_000)


def event(kind: EventKind = EventKind.LEVEL_DOWN, rule: str = "") -> EventRecord:
    return EventRecord(float(next(_clock)), kind, "so it was", rule)


def shown(log: EventLog) -> dict[str, dict[tuple[str, ...], float]]:
    return {series.metric.name: dict(series.values) for series in log.series if hasattr(series, "values")}


def test_the_latest_hundred_are_kept_newest_first() -> None:
    log, events = EventLog(), [event() for _ in range(150)]
    for each in events:
        log.record(each)
    assert log.latest() == events[:49:-1]


def test_events_are_counted_by_kind() -> None:
    log = EventLog()
    for kind in (EventKind.LEVEL_DOWN, EventKind.LEVEL_UP, EventKind.LEVEL_DOWN):
        log.record(event(kind))
    counts = shown(log)["tailrace_events"]
    assert {kind: number for (kind,), number in counts.items() if number} == {"level_down": 2, "level_up": 1}
    assert len(counts) == len(EventKind)


def test_a_rule_is_shown_before_it_fires_while_it_holds_and_after() -> None:
    log = EventLog()
    log.watch_rules(["slow", "cold"])
    seen = [shown(log)]
    for kind in (EventKind.RULE_FIRED, EventKind.RULE_CLEARED, EventKind.RULE_FIRED):
        log.record(event(kind, "slow"))
        seen.append(shown(log))
    assert [each["tailrace_rule_active"] for each in seen] == [
        {("slow",): active, ("cold",): 0} for active in (0, 1, 0, 1)
    ]
    assert [each["tailrace_rules_fired"][("slow",)] for each in seen] == [0, 1, 1, 2]


def test_what_other_processes_saw_is_remembered_in_its_order_and_not_counted_again() -> None:
    log, other = EventLog(), EventLog()
    events = [event() for _ in range(4)]
    for each, place in zip(events, (log, other, log, other), strict=True):
        place.record(each)
    log.remember(other.latest())
    assert log.latest() == events[::-1]
    assert shown(log)["tailrace_events"][("level_down",)] == 2


def test_events_of_all_processes_are_seen_in_any_and_survive_the_one_that_saw_them() -> None:
    engine, heir, api = (Metrics(model_name="m", version="1") for _ in range(3))
    fired, lost = event(EventKind.RULE_FIRED, "slow"), event(EventKind.ENGINE_LOST)
    engine.record(fired)
    api.record(lost)
    assert api.with_others([engine.snapshot()]).events.latest() == [lost, fired]
    assert api.events.latest() == [lost]

    heir.go_on_from(engine.snapshot())
    assert heir.events.latest() == [fired]
    assert shown(heir.events)["tailrace_rule_active"] == {}
    assert shown(heir.events)["tailrace_rules_fired"] == {("slow",): 1}
