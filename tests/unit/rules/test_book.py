"""Several rules together, and what they want done."""

from tailrace.classes import STANDARD, ServiceClasses
from tailrace.records import FirstToken, LevelUse
from tailrace.rules.book import RuleBook
from tailrace.rules.rule import Action, Rule, Side, Signal
from tailrace.rules.signals import Facts
from tailrace.rules.standard import standard_rules
from tailrace.rules.state import Change
from tailrace.types import Level


def level_rule(action: Action, below: float, for_s: float) -> Rule:
    return Rule(
        action.value,
        Signal.HIT_RATE,
        "redis",
        Side.BELOW,
        below,
        for_s=for_s,
        clear_at=below,
        clear_for_s=for_s,
        action=action,
        target="redis",
        window_s=for_s,
        min_samples=1,
    )


def shed_rule(name: str, for_s: float) -> Rule:
    return Rule(
        name,
        Signal.WAITING,
        "gold",
        Side.ABOVE,
        1.0,
        for_s=for_s,
        clear_at=1.0,
        clear_for_s=for_s,
        action=Action.SHED,
        target="bronze",
    )


class Traffic:
    """A level that is asked for a hundred blocks a second, of which it has a share."""

    def __init__(self) -> None:
        self._use = LevelUse()

    def second(self, hit_rate: float) -> Facts:
        self._use = self._use.plus(LevelUse(10, 100, 100 * hit_rate, 1.0))
        return Facts(uses={"redis": self._use})


def test_of_two_rules_that_hold_for_a_level_the_one_listed_last_decides() -> None:
    book, traffic = (
        RuleBook([level_rule(Action.BYPASS, 0.6, 3), level_rule(Action.ASYNCHRONOUS, 0.45, 5)], 0.0),
        Traffic(),
    )
    seen: list[Action | None] = []
    for now_s in range(30):
        book.look(traffic.second(0.3 if now_s < 10 else 0.9), now_s)
        if (action := book.level_actions.get("redis")) not in seen[-1:]:
            seen.append(action)
    assert seen == [None, Action.BYPASS, Action.ASYNCHRONOUS, None]


def test_changes_are_told_once_with_the_value_of_the_signal() -> None:
    book = RuleBook([shed_rule("a", 2)], 0.0)
    busy, idle = Facts(waiting={"gold": 5}), Facts()
    told = [
        (now_s, change.change, change.value)
        for now_s in range(12)
        for change in book.look(busy if now_s < 6 else idle, now_s)
    ]
    assert told == [(2, Change.FIRED, 5), (8, Change.CLEARED, 0)]


def test_a_class_is_shed_until_the_last_of_its_rules_clears_and_it_is_known_when_that_is_at_the_earliest() -> None:
    book = RuleBook([shed_rule("a", 2), shed_rule("b", 4)], 0.0)
    busy, idle = Facts(waiting={"gold": 5}), Facts()
    until_s = []
    for now_s in range(12):
        book.look(busy if now_s < 6 else idle, now_s)
        until_s.append(book.shed_until_s(now_s).get("bronze"))
    assert until_s == [None, None, 4, 5, 8, 9, 10, 10, 10, 10, None, None]


def test_each_rule_is_reported_as_it_stands() -> None:
    book = RuleBook([shed_rule("a", 2)], 0.0)
    book.look(Facts(waiting={"gold": 5}), 1.0)
    (report,) = book.reports()
    assert (report.name, report.state, report.since_s, report.signal) == ("a", "pending", 1.0, 5)
    assert (report.says, report.action, report.target) == ("waiting of gold above 1 for 2 s", "shed", "bronze")


def test_the_standard_rules_are_those_of_the_levels_and_classes_there_are() -> None:
    assert [rule.name for rule in standard_rules(STANDARD, [Level.HOST, Level.REDIS])] == [
        "host-bypass",
        "host-asynchronous",
        "redis-bypass",
        "redis-asynchronous",
        "shed-bronze",
    ]
    alone = ServiceClasses((STANDARD.best,), STANDARD.best.name)
    assert standard_rules(alone, []) == ()


def play_standard(use_a_second: LevelUse, seconds: int) -> list[str]:
    """What fires of the standard rules of a server whose redis is used so, every second."""
    book, use, fired = RuleBook(standard_rules(STANDARD, [Level.REDIS]), 0.0), LevelUse(), []
    for now_s in range(seconds):
        use = use.plus(use_a_second)
        fired += [change.rule.name for change in book.look(Facts(uses={"redis": use}), now_s)]
    return fired


def test_a_level_that_costs_time_and_has_little_is_bypassed_and_one_that_has_next_to_nothing_asynchronous() -> None:
    assert play_standard(LevelUse(1, 10, 5, 0.1), 900) == ["redis-bypass"]
    assert play_standard(LevelUse(1, 10, 1, 0.1), 170) == []
    assert play_standard(LevelUse(1, 10, 1, 0.1), 900) == ["redis-bypass", "redis-asynchronous"]


def test_a_cold_level_that_costs_nothing_one_that_saves_more_and_one_that_nobody_asks_are_left_alone() -> None:
    assert play_standard(LevelUse(5, 50, 0, 5 * 0.002), 900) == []
    assert play_standard(LevelUse(1, 10, 3, -2.0), 900) == []
    assert play_standard(LevelUse(0.05, 0.5, 0, 0.05), 900) == []


def test_the_least_class_makes_way_for_the_best_after_a_minute_beyond_its_target() -> None:
    book, told = RuleBook(standard_rules(STANDARD, []), 0.0), []
    for now_s in range(400):
        late = FirstToken("gold", 1.2 if now_s < 150 else 0.5, 0.1)
        told += [(now_s, change.change) for change in book.look(Facts(first_tokens=[late]), now_s)]
    (fired_s, fired), (cleared_s, cleared) = told
    assert (fired, cleared) == (Change.FIRED, Change.CLEARED)
    assert 60 <= fired_s <= 80, "twenty samples, and then a minute"
    assert 150 + 60 + 60 <= cleared_s <= 275, "the late ones leave the window, and then a minute"
