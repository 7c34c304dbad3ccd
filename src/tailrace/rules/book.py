"""All rules of a server together: looked at once in a while, they say what has changed and what is to be done."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tailrace.records import RuleReport
from tailrace.rules.rule import Action, Rule
from tailrace.rules.signals import Facts, Reading, reader_of
from tailrace.rules.state import Change, RuleState, Standing

__all__ = ["RuleBook", "RuleChange"]


class RuleChange(NamedTuple):
    rule: Rule
    change: Change
    value: float | None  # of its signal, then


class RuleBook:
    """Rules act by what holds, not by what fired: several may want the same, and the last to clear undoes it."""

    def __init__(self, rules: Iterable[Rule], now_s: float) -> None:
        self._states = [RuleState(rule, now_s) for rule in rules]
        self._readers = [reader_of(state.rule) for state in self._states]
        self._readings = [Reading()] * len(self._states)

    def look(self, facts: Facts, now_s: float) -> list[RuleChange]:
        """What fires and what clears, as things are now."""
        self._readings = [reader.read(facts, now_s) for reader in self._readers]
        looked = [
            (state.rule, state.look(reading.acted_on, now_s), reading.value)
            for state, reading in zip(self._states, self._readings, strict=True)
        ]
        return [RuleChange(rule, change, value) for rule, change, value in looked if change is not None]

    @property
    def level_actions(self) -> Mapping[str, Action]:
        """What is done to levels: of several rules that hold for one, the one that was listed last decides."""
        return {
            state.rule.target: state.rule.action
            for state in self._states
            if state.holds and state.rule.action in (Action.BYPASS, Action.ASYNCHRONOUS)
        }

    def shed_until_s(self, now_s: float) -> Mapping[str, float]:
        """The classes that are shed, and when each is let in again at the earliest."""
        until_s: dict[str, float] = {}
        for state in self._states:
            if state.holds and state.rule.action is Action.SHED:
                target = state.rule.target
                until_s[target] = max(until_s.get(target, now_s), state.clears_at_s(now_s))
        return until_s

    def reports(self) -> Sequence[RuleReport]:
        """How each rule stands. From any thread."""
        pairs = zip(self._states, self._readings, strict=True)
        return [_report(state.rule, state.standing, reading) for state, reading in pairs]


def _report(rule: Rule, standing: Standing, reading: Reading) -> RuleReport:
    return RuleReport(
        name=rule.name,
        says=rule.words,
        action=rule.action.value,
        target=rule.target,
        state=standing.state.value,
        since_s=standing.since_s,
        signal=reading.value,
        counts=reading.counts,
        clear_at=rule.clear_at,
        clear_for_s=rule.clear_for_s,
    )
