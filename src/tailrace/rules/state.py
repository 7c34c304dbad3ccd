"""Whether a rule holds: it takes its time to fire, and its time to clear. Pure: time is an argument.

QUIET --trouble--> PENDING --for_s of it--> FIRING --well--> CLEARING --clear_for_s of it--> QUIET
  ^                   |                       ^                 |
  +----no trouble-----+                       +----not well-----+
"""

from enum import StrEnum

from tailrace.rules.rule import Rule

__all__ = ["Change", "RuleState", "State"]


class State(StrEnum):
    QUIET = "quiet"
    PENDING = "pending"
    FIRING = "firing"
    CLEARING = "clearing"


class Change(StrEnum):
    FIRED = "fired"
    CLEARED = "cleared"


class RuleState:
    """Of one rule. Between two looks, things were as at the first of them."""

    def __init__(self, rule: Rule, now_s: float) -> None:
        self.rule = rule
        self.state = State.QUIET
        self.since_s = now_s

    @property
    def holds(self) -> bool:
        """Whether what the rule does is in force."""
        return self.state in (State.FIRING, State.CLEARING)

    def clears_at_s(self, now_s: float) -> float:
        """When it clears at the earliest, while it holds."""
        began_s = self.since_s if self.state is State.CLEARING else now_s
        return began_s + self.rule.clear_for_s

    def look(self, value: float | None, now_s: float) -> Change | None:
        """The signal is this now; None: nothing is known, which is no trouble."""
        is_trouble = value is not None and self.rule.is_trouble(value)
        is_well = value is None or self.rule.is_well(value)
        if self.state is State.QUIET and is_trouble:
            self._enter(State.PENDING, now_s)
        elif self.state is State.PENDING and not is_trouble:
            self._enter(State.QUIET, now_s)
        elif self.state is State.FIRING and is_well:
            self._enter(State.CLEARING, now_s)
        elif self.state is State.CLEARING and not is_well:
            self._enter(State.FIRING, now_s)
        return self._ripen(now_s)

    def _ripen(self, now_s: float) -> Change | None:
        """What has been so for long enough."""
        if self.state is State.PENDING and now_s - self.since_s >= self.rule.for_s:
            self._enter(State.FIRING, now_s)
            return Change.FIRED
        if self.state is State.CLEARING and now_s - self.since_s >= self.rule.clear_for_s:
            self._enter(State.QUIET, now_s)
            return Change.CLEARED
        return None

    def _enter(self, state: State, now_s: float) -> None:
        self.state = state
        self.since_s = now_s
