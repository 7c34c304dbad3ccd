"""From what happened to the value of a rule's signal: a reader for each rule, with a window of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tailrace.records import FirstToken, LevelUse
from tailrace.rules.rule import Rule, Signal
from tailrace.rules.window import LatestValues, WindowSums

__all__ = ["Facts", "LevelFaults", "Reading", "SignalReader", "TokenCounts", "reader_of"]


class LevelFaults(NamedTuple):
    """Of a level, since the start."""

    num_failures: int = 0
    num_corrupt_blocks: int = 0


class TokenCounts(NamedTuple):
    """Of requests of a class that ended: output tokens behind the first, and those of them that came late."""

    num_tokens: int = 0
    num_late: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """What is to be known at a look: of levels since the start, of classes since the last look, of the load now."""

    uses: Mapping[str, LevelUse] = field(default_factory=dict)
    faults: Mapping[str, LevelFaults] = field(default_factory=dict)
    first_tokens: Sequence[FirstToken] = ()
    tokens: Mapping[str, TokenCounts] = field(default_factory=dict)
    waiting: Mapping[str, int] = field(default_factory=dict)
    kv_use: float = 0.0


class Reading(NamedTuple):
    """`value` is for who wants to see it; nobody acts on it unless it `counts`."""

    value: float | None = None
    counts: bool = False

    @property
    def acted_on(self) -> float | None:
        return self.value if self.counts else None


class SignalReader(Protocol):
    def read(self, facts: Facts, now_s: float) -> Reading: ...


def reader_of(rule: Rule) -> SignalReader:
    """What takes the signal of a rule, from now on."""
    match rule.signal:
        case Signal.HIT_RATE:
            return _HitRate(rule)
        case Signal.FAILURES | Signal.CORRUPT_BLOCKS:
            return _Faults(rule)
        case Signal.TTFT_P99 | Signal.QUEUE_P99:
            return _FirstTokens(rule)
        case Signal.LATE_TOKENS:
            return _LateTokens(rule)
        case Signal.WAITING | Signal.KV_USE:
            return _Load(rule)


class _HitRate:
    """Counts once the level was asked often enough, unless it costs too little to be a trouble."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._sums = WindowSums(len(LevelUse._fields), rule.window_s)
        self._before: LevelUse | None = None

    def read(self, facts: Facts, now_s: float) -> Reading:
        use = facts.uses.get(self._rule.subject, LevelUse())
        before, self._before = self._before or use, use
        self._sums.add([new - old for new, old in zip(use, before, strict=True)], now_s)
        total = LevelUse(*self._sums.totals(now_s))
        if total.num_lookups <= 0.0 or total.num_asked_blocks <= 0.0:
            return Reading()
        is_enough = total.num_lookups >= self._rule.min_samples
        return Reading(total.num_given_blocks / total.num_asked_blocks, is_enough and self._is_costly(total))

    def _is_costly(self, total: LevelUse) -> bool:
        least_s = self._rule.least_loss_s
        return least_s is None or total.lost_s / total.num_lookups >= least_s


class _Faults:
    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._place = 0 if rule.signal is Signal.FAILURES else 1
        self._sums = WindowSums(1, rule.window_s)
        self._before: int | None = None

    def read(self, facts: Facts, now_s: float) -> Reading:
        count = facts.faults.get(self._rule.subject, LevelFaults())[self._place]
        before, self._before = count if self._before is None else self._before, count
        self._sums.add((count - before,), now_s)
        return Reading(self._sums.totals(now_s)[0], counts=True)


class _FirstTokens:
    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._latest = LatestValues(rule.window_s)

    def read(self, facts: Facts, now_s: float) -> Reading:
        for each in facts.first_tokens:
            if each.class_name == self._rule.subject:
                is_ttft = self._rule.signal is Signal.TTFT_P99
                self._latest.add(each.num_targets if is_ttft else each.queued_s, now_s)
        count = self._latest.count(now_s)
        return Reading(self._latest.quantile(0.99), count >= self._rule.min_samples) if count else Reading()


class _LateTokens:
    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._sums = WindowSums(len(TokenCounts._fields), rule.window_s)

    def read(self, facts: Facts, now_s: float) -> Reading:
        self._sums.add(facts.tokens.get(self._rule.subject, TokenCounts()), now_s)
        num_tokens, num_late = self._sums.totals(now_s)
        return Reading(num_late / num_tokens, num_tokens >= self._rule.min_samples) if num_tokens else Reading()


class _Load:
    """As it is now: the window has no say."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    def read(self, facts: Facts, now_s: float) -> Reading:
        if self._rule.signal is Signal.KV_USE:
            return Reading(facts.kv_use, counts=True)
        return Reading(facts.waiting.get(self._rule.subject, 0), counts=True)
