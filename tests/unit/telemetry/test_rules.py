from tailrace.records import RuleReport
from tailrace.telemetry.rules import RuleReports
from tailrace.types import LevelMode


def report(action: str, target: str, state: str) -> RuleReport:
    return RuleReport(f"{target}-{action}", "says", action, target, state, 1.0, None, False, 0.5, 1.0)


def modes(*reports: RuleReport) -> dict[str, LevelMode]:
    rules = RuleReports()
    rules.watch(lambda: reports)
    return rules.level_modes()


def test_there_are_none_until_somebody_says_where_they_are() -> None:
    reports, quiet = RuleReports(), report("warn", "", "quiet")
    assert reports.latest() == []
    reports.watch(lambda: (quiet,))
    assert reports.latest() == [quiet]


def test_a_level_is_as_the_last_rule_that_holds_for_it_wants() -> None:
    bypass, refill = report("bypass", "redis", "firing"), report("asynchronous", "redis", "clearing")
    assert modes(bypass, refill) == {"redis": LevelMode.ASYNCHRONOUS}
    assert modes(refill, bypass) == {"redis": LevelMode.BYPASSED}
    assert modes(bypass, report("asynchronous", "redis", "pending")) == {"redis": LevelMode.BYPASSED}
    assert modes(report("bypass", "disk", "quiet"), report("shed", "bronze", "firing")) == {"disk": LevelMode.NORMAL}


def test_the_mode_of_each_level_is_shown() -> None:
    rules = RuleReports()
    rules.watch(lambda: [report("bypass", "redis", "firing")])
    rules.refresh()
    (series,) = rules.series
    assert series.values == {("redis", "normal"): 0, ("redis", "asynchronous"): 0, ("redis", "bypassed"): 1}  # type: ignore[union-attr]  # mypy: any series
