"""Whether a rule holds: it takes its time to fire, and its time to clear. Pure: time is an argument.

QUIET --trouble--> PENDING --for_s of it--> FIRING --well--> CLEARING --clear_for_s of it--> QUIET
  ^                   |                       ^                 |
  +----no trouble-----+                       +----not well-----+
"""

from enum import StrEnum
from typing import NamedTuple

from tailrace.rules.rule import Rule

__all__ = ["Change", "RuleState", "Standing", "State"]


class State(StrEnum):
    QUIET = "quiet"
    PENDING = "pending"
    FIRING = "firing"
    CLEARING = "clearing"


class Change(StrEnum):
    FIRED = "fired"
    CLEARED = "cleared"


class Standing(NamedTuple):
    state: State
    since_s: float


class RuleState:
    """Of one rule. Between two looks, things were as at the first of them. Any thread may read its `standing`."""

    def __init__(self, rule: Rule, now_s: float) -> None:
        self.rule = rule
        self.standing = Standing(State.QUIET, now_s)

    @property
    def state(self) -> State:
        return self.standing.state

    @property
    def holds(self) -> bool:
        """Whether what the rule does is in force."""
        return self.state in (State.FIRING, State.CLEARING)

    def clears_at_s(self, now_s: float) -> float:
        """When it clears at the earliest, while it holds."""
        began_s = self.standing.since_s if self.state is State.CLEARING else now_s
        return began_s + self.rule.clear_for_s

    def look(self, value: float | None, now_s: float) -> Change | None:
        """The signal is this now; None: nothing is known, which is no trouble."""
        if self.holds:
            wanted = State.CLEARING if value is None or self.rule.is_well(value) else State.FIRING
        else:
            wanted = State.PENDING if value is not None and self.rule.is_trouble(value) else State.QUIET
        if wanted is not self.standing.state:
            self.standing = Standing(wanted, now_s)
        return self._ripen(now_s)

    def _ripen(self, now_s: float) -> Change | None:
        """What has been so for long enough."""
        state, since_s = self.standing
        if state is State.PENDING and now_s - since_s >= self.rule.for_s:
            self.standing = Standing(State.FIRING, now_s)
            return Change.FIRED
        if state is State.CLEARING and now_s - since_s >= self.rule.clear_for_s:
            self.standing = Standing(State.QUIET, now_s)
            return Change.CLEARED
        return None
