"""Rules that act upon the engine: looked at about once a second, between two steps, on the thread of the step loop."""

import logging
import time
from collections.abc import Callable, Sequence

from tailrace.records import (
    EventKind,
    EventRecord,
    LevelReport,
    LoadRecord,
    Record,
    RecordSink,
    RequestRecord,
    RuleReport,
    StepRecord,
)
from tailrace.rules.book import RuleBook, RuleChange
from tailrace.rules.rule import Action, Rule, Signal
from tailrace.rules.signals import Facts, LevelFaults, TokenCounts
from tailrace.rules.state import Change
from tailrace.scheduler.scheduler import Scheduler
from tailrace.types import Level, LevelMode

__all__ = ["Governor"]

logger = logging.getLogger(__name__)

_LOOK_S = 1.0
_FAULTS = (Signal.FAILURES, Signal.CORRUPT_BLOCKS)
_MODES = {Action.BYPASS: LevelMode.BYPASSED, Action.ASYNCHRONOUS: LevelMode.ASYNCHRONOUS}
_KINDS = {Change.FIRED: EventKind.RULE_FIRED, Change.CLEARED: EventKind.RULE_CLEARED}


class Governor:
    """`record` is a sink of what the engine emits; what rules do is told to `tell`. `read_levels` says how levels fare.

    What is done is done to those who come from then on: nobody who was let in is turned away.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        scheduler: Scheduler,
        tell: RecordSink,
        *,
        read_levels: Callable[[], Sequence[LevelReport]] = tuple,
        look_s: float = _LOOK_S,
        now_s: float | None = None,
        clock_of_day: Callable[[], float] = time.time,
    ) -> None:
        self._scheduler = scheduler
        self._tell = tell
        self._read_levels = read_levels if any(rule.signal in _FAULTS for rule in rules) else tuple
        self._look_s = look_s
        self._clock_of_day = clock_of_day
        self._class_names = [each.name for each in scheduler.classes]
        self._book = RuleBook(rules, time.monotonic() if now_s is None else now_s)
        self._due_s = 0.0 if rules else float("inf")
        self._load: StepRecord | LoadRecord | None = None
        self._tokens: dict[str, TokenCounts] = {}

    def reports(self) -> Sequence[RuleReport]:
        """How each rule stands. From any thread."""
        return self._book.reports()

    def record(self, record: Record) -> None:
        if isinstance(record, StepRecord | LoadRecord):
            self._load = record
        elif isinstance(record, RequestRecord) and not record.is_warmup:
            self._count(record)

    def look(self, now_s: float) -> None:
        """Act upon what holds now, if it is time to look again."""
        if now_s < self._due_s:
            return
        self._due_s = now_s + self._look_s
        for change in self._book.look(self._facts(), now_s):
            self._tell_of(change)
        self._scheduler.entrance.shed_until_s = self._book.shed_until_s(now_s)
        self._scheduler.below.modes.change(
            {Level(name): _MODES[action] for name, action in self._book.level_actions.items()}
        )

    def _count(self, request: RequestRecord) -> None:
        before = self._tokens.get(request.class_name, TokenCounts())
        num_tokens = max(request.num_output_tokens - 1, 0)
        self._tokens[request.class_name] = TokenCounts(
            before.num_tokens + num_tokens, before.num_late + request.num_late_tokens
        )

    def _facts(self) -> Facts:
        """What happened since the last look."""
        tokens, self._tokens = self._tokens, {}
        load = self._load
        return Facts(
            uses={level.value: use for level, use in self._scheduler.below.uses.totals.items()},
            faults={
                report.level.value: LevelFaults(report.num_failures, report.num_corrupt_blocks)
                for report in self._read_levels()
            },
            first_tokens=self._scheduler.entrance.take_first_tokens(),
            tokens=tokens,
            waiting={} if load is None else dict(zip(self._class_names, load.waiting_by_class, strict=False)),
            kv_use=load.num_blocks_used / load.num_blocks_total if load is not None and load.num_blocks_total else 0.0,
        )

    def _tell_of(self, change: RuleChange) -> None:
        rule = change.rule
        now = "unknown" if change.value is None else f"{change.value:.3g}"
        if change.change is Change.FIRED:
            message = f"rule {rule.name} fired: {rule.words} (now {now}): {rule.deed}"
        else:
            message = f"rule {rule.name} cleared: {rule.signal} is {now}, no more {rule.deed}"
        logger.warning("%s", message)
        self._tell(EventRecord(self._clock_of_day(), _KINDS[change.change], message, rule.name))
