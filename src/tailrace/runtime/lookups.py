"""Lookups on their way from level to level: each is asked for what the one before it does not have."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tailrace.kvcache.transfer import BlockHead, Lookup, LookupAnswer
from tailrace.levels.api import checked
from tailrace.runtime.level_worker import LevelWorker
from tailrace.types import Level

__all__ = ["Lookups"]


@dataclass(eq=False, slots=True)
class _Looking:
    lookup: Lookup
    end_s: float  # of its patience
    turn: int = -1  # which level is asked
    due_s: float = 0.0
    asked_s: float | None = None  # since when it is
    found: list[Level] = field(default_factory=list)
    down: list[Level] = field(default_factory=list)
    asked: list[tuple[Level, float]] = field(default_factory=list)
    elsewhere: BlockHead | None = None

    @property
    def missing(self) -> tuple[bytes, ...]:
        return self.lookup.names[len(self.found) :]


class Lookups:
    """A level that does not answer within its deadline is passed over; what it says later is not listened to.

    So are all that are left when the patience of a lookup ends.
    """

    def __init__(
        self,
        workers: Sequence[LevelWorker],
        answer: Callable[[LookupAnswer], None],
        clock: Callable[[], float],
    ) -> None:
        self._workers = workers
        self._answer = answer
        self._clock = clock
        self._lock = threading.Lock()
        self._under_way: dict[int, _Looking] = {}

    @property
    def due_s(self) -> float | None:
        with self._lock:
            return min((looking.due_s for looking in self._under_way.values()), default=None)

    def start(self, lookup: Lookup) -> None:
        with self._lock:
            looking = self._under_way[lookup.lookup_id] = _Looking(lookup, self._clock() + lookup.patience_s)
            self._go_on(looking)

    def give_up_overdue(self) -> None:
        if not self._under_way:  # as in most steps
            return
        now_s = self._clock()
        with self._lock:
            for looking in [looking for looking in self._under_way.values() if looking.due_s <= now_s]:
                self._pass_over(looking)

    def _go_on(self, looking: _Looking) -> None:
        """Ask the next level, or answer. A level without time counts as down."""
        now_s = self._clock()
        if looking.asked_s is not None:
            looking.asked.append((self._workers[looking.turn].level, now_s - looking.asked_s))
            looking.asked_s = None
        looking.turn = self._next_turn(looking)
        if looking.turn == len(self._workers) or not looking.missing:
            self._end(looking)
            return
        worker, turn = self._workers[looking.turn], looking.turn
        looking.due_s = min(now_s + worker.deadline_s, looking.end_s)
        if now_s < looking.end_s:
            looking.asked_s = now_s
        if now_s >= looking.end_s or not worker.read(lambda worker: self._ask(worker, looking, turn)):
            self._pass_over(looking)

    def _next_turn(self, looking: _Looking) -> int:
        turns = range(looking.turn + 1, len(self._workers))
        return next((turn for turn in turns if self._workers[turn].level not in looking.lookup.skipped), turns.stop)

    def _end(self, looking: _Looking) -> None:
        del self._under_way[looking.lookup.lookup_id]
        elsewhere = None if looking.found else looking.elsewhere
        found, down, asked = tuple(looking.found), tuple(looking.down), tuple(looking.asked)
        self._answer(LookupAnswer(looking.lookup.lookup_id, found, down, elsewhere, asked))

    def _pass_over(self, looking: _Looking) -> None:
        looking.down.append(self._workers[looking.turn].level)
        self._go_on(looking)

    def _ask(self, worker: LevelWorker, looking: _Looking, turn: int) -> None:
        """On the level's thread."""
        if looking.turn != turn:
            return  # given up before it began
        names, count, elsewhere = looking.missing, None, None
        try:
            level = worker.ready()
            count = checked(level.contain(names), len(names))
            content = looking.lookup.content
            if not count and not looking.found and content is not None:
                elsewhere = level.elsewhere(content)
        finally:
            with self._lock:
                if looking.turn == turn:
                    looking.elsewhere = looking.elsewhere or elsewhere
                    self._take_in(looking, worker.level, count)

    def _take_in(self, looking: _Looking, level: Level, count: int | None) -> None:
        if count is None:
            self._pass_over(looking)
        else:
            looking.found += [level] * count
            self._go_on(looking)
