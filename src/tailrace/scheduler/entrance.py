"""Where requests wait until they run: looked at as they come, turned away in time, set aside for what lies below."""

import math
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple

from tailrace.errors import MIN_RETRY_S, RefusalReason, heeded_s
from tailrace.kvcache.cache import KvCache, PrefixMatch
from tailrace.records import BeginningRecord, FirstToken
from tailrace.scheduler.admission import expired, refusal_of, shed
from tailrace.scheduler.arrivals import Arrivals
from tailrace.scheduler.below import LevelsBelow
from tailrace.scheduler.config import SchedulerConfig
from tailrace.scheduler.lifecycle import RequestState
from tailrace.scheduler.live import Awaited, LiveRequest
from tailrace.scheduler.prediction import Ahead, Prediction, Shortage, TtftPredictor
from tailrace.scheduler.queue import WaitingQueue
from tailrace.types import Refusal, Request

__all__ = ["Admitted", "Entrance", "Outlook"]

_MAX_FIRST_TOKENS = 4096  # of which nobody has asked; the oldest go first


@dataclass(slots=True)
class Admitted:
    """Who was let in while a step was planned, and what kept the others from it."""

    num_requests: int = 0
    num_tokens: int = 0  # to be computed for them
    shortage: Shortage | None = None


class Outlook(NamedTuple):
    """What is ahead of a request, and how many tokens of a prompt that is alone are computed in a second."""

    ahead: Ahead
    alone_rate: float | None


class Entrance:
    """`outlook` tells what is ahead of a request that comes now.

    Nobody new of the classes in `shed_until_s` is let in; each is let in again at that time at the earliest.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        cache: KvCache,
        below: LevelsBelow,
        arrivals: Arrivals,
        outlook: Callable[[LiveRequest], Outlook],
    ) -> None:
        self._config = config
        self._cache = cache
        self._below = below
        self._arrivals = arrivals
        self._outlook = outlook
        self._ranks = {each.name: rank for rank, each in enumerate(config.classes)}
        self._unsettled: dict[str, LiveRequest] = {}  # those that may have something to fetch, by arrival
        self._first_tokens: deque[FirstToken] = deque(maxlen=_MAX_FIRST_TOKENS)
        self._beginnings: deque[BeginningRecord] = deque(maxlen=_MAX_FIRST_TOKENS)
        self.shed_until_s: Mapping[str, float] = {}
        self.queue = WaitingQueue(config.classes)
        self.predictor = TtftPredictor([each.share for each in config.classes])

    def take(self, request: Request) -> LiveRequest:
        """Take in a request that may `wait` now. Raises InvalidRequest or ContextTooLong for what can never run."""
        live = self._arrivals.take(request)
        self._arrivals.appraise(live)
        return live

    def refusal_of(self, live: LiveRequest, now_s: float) -> Refusal | None:
        """Why a newcomer is turned away: because of those ahead its first token would come too late."""
        prediction = self._predict(live, now_s, _waited_s(live, now_s))
        refusal = None
        if not _is_owed(live.request):
            refusal = self._shed(live, now_s, prediction) or self._refused_late(live, now_s, prediction)
        if refusal is not None:
            live.refused_for = refusal.reason
            self._arrivals.forget(live)
            return refusal
        live.prediction = prediction
        self.predictor.observe_arrival(self._rank(live), live.work_tokens, now_s)
        return None

    def _shed(self, live: LiveRequest, now_s: float, prediction: Prediction | None) -> Refusal | None:
        until_s = self.shed_until_s.get(live.service_class.name)
        if until_s is None:
            return None
        after_s = 0.0
        if prediction is not None:
            after_s = self._retry_after_s(live, now_s, prediction, live.deadline_s - live.request.arrival_s)
        return shed(live.service_class, heeded_s(max(after_s, until_s - now_s)))

    def _refused_late(self, live: LiveRequest, now_s: float, prediction: Prediction | None) -> Refusal | None:
        retry_after_s = partial(self._retry_after_s, live, now_s)
        refusal = refusal_of(prediction, live.request, live.service_class, self._config.classes, retry_after_s)
        if refusal is not None:
            self._note_late(live, now_s)
        return refusal

    def take_first_tokens(self) -> list[FirstToken]:
        """When users' requests had theirs, or were refused for being late, since the last call."""
        taken = list(self._first_tokens)
        self._first_tokens.clear()
        return taken

    def drain_beginnings(self) -> list[BeginningRecord]:
        """Facts of the users' requests that had their first token since the last call."""
        beginnings = list(self._beginnings)
        self._beginnings.clear()
        return beginnings

    def _note_late(self, live: LiveRequest, now_s: float) -> None:
        """It was refused; if by what it asked for itself, its class is not to blame."""
        if live.request.ttft_s is not None or live.request.queue_ttl_s is not None:
            return
        self._first_tokens.append(FirstToken(live.service_class.name, math.inf, _waited_s(live, now_s)))

    def _note_first_token(self, live: LiveRequest, now_s: float) -> None:
        if _is_owed(live.request) or live.started_s is None:
            return
        arrival_s = live.request.arrival_s
        num_targets = (now_s - arrival_s) / live.service_class.ttft_s
        self._first_tokens.append(FirstToken(live.service_class.name, num_targets, live.started_s - arrival_s))

    def settle(self, live: LiveRequest, now_s: float) -> None:
        """Its first token came: compare with what was predicted."""
        self._note_first_token(live, now_s)
        if live.started_s is not None and not live.request.output_ids and not live.request.is_warmup:
            self._beginnings.append(live.beginning_record(live.started_s, now_s))
        if live.prediction is not None:
            waited_s = _waited_s(live, now_s)
            self.predictor.settle(live.prediction, waited_s, rank=self._rank(live))

    def stepped(self, admitted: Admitted, took_s: float, *, num_prefill_tokens: int) -> None:
        """A step is over: let it be known how fast those who wait are let in, and what keeps them."""
        self.predictor.observe_step(
            took_s,
            admitted.shortage,
            num_prefill_tokens=num_prefill_tokens,
            num_started=admitted.num_requests,
            num_started_tokens=admitted.num_tokens,
        )

    def wait(self, live: LiveRequest) -> None:
        """Queue one that was appraised."""
        self.queue.push(live)
        if not self._below.is_empty:
            self._unsettled[live.request_id] = live

    def come_back(self, live: LiveRequest) -> None:
        """Queue one that was preempted."""
        self._arrivals.appraise(live)
        self.wait(live)

    def start(self, live: LiveRequest, num_tokens: int, now_s: float) -> None:
        """It runs from now on, with so many tokens to compute."""
        self.queue.admitted(live, num_tokens, now_s)
        self._forget(live)

    def leave(self, live: LiveRequest) -> None:
        """It will not start."""
        self.queue.remove(live)
        self._forget(live)

    def expire(self, now_s: float) -> list[tuple[LiveRequest, Refusal]]:
        """Take out those that have waited for as long as they may."""
        return [(live, self._expired(live, now_s)) for live in self.queue.expire(now_s)]

    def wake(self, now_s: float) -> None:
        """Put back those that need not wait for their prefix any more."""
        self.queue.wake(self._below.is_pending, partial(self._look_again, now_s))

    def look_below(self, spare: int, now_s: float) -> None:
        """Let those who came first ask the levels below, and set them aside until they are answered."""
        self._below.refill(spare)
        for live in list(islice(self._unsettled.values(), self._config.max_running)):
            if live.state is not RequestState.WAITING:
                continue  # it has asked
            if self.match(live, spare, now_s) is not None:
                if live.below.settled_end is None:
                    return  # there is no room for what it would fetch, nor for those behind it
                del self._unsettled[live.request_id]

    def match(self, live: LiveRequest, spare: int, now_s: float) -> PrefixMatch | None:
        """What the cache has of a request that is ready; None when it was set aside, since somebody will give it more.

        One whose next blocks are being computed waits for them. That cannot last: who computes them is running, and if
        it leaves, the first that waited is next to lead.
        """
        match = self._cache.match(live.table, live.token_ids)
        awaited = match.awaited or self._below.ask(live, match, spare, now_s)
        if awaited is None:
            return match
        if self._below.is_from_below(awaited):
            live.fetching_since_s = now_s
        self.queue.defer(live, awaited)
        return None

    def _look_again(self, now_s: float, awaited: Awaited, lives: Collection[LiveRequest]) -> None:
        """What was to come has come, or will not: together, so that what is still to compute is the work of one.

        Nothing has changed for who waited for an answer, or for others' blocks to be out of the way.
        """
        for live in lives:
            live.has_fetched(now_s)
        heirs = [live for live in lives if awaited in live.missing]
        for live in heirs:
            self._arrivals.forget(live)
        for live in heirs:
            self._arrivals.appraise(live)

    def _expired(self, live: LiveRequest, now_s: float) -> Refusal:
        live.refused_for = RefusalReason.QUEUE_TIMEOUT
        self._note_late(live, now_s)
        prediction = self._predict(live, now_s, waited_s=0.0)  # of one that comes now in its stead
        target_s = live.deadline_s - live.request.arrival_s
        after_s = MIN_RETRY_S if prediction is None else self._retry_after_s(live, now_s, prediction, target_s)
        self._forget(live)
        return expired(live.request, live.service_class, self._config.classes, _waited_s(live, now_s), after_s)

    def _predict(self, live: LiveRequest, now_s: float, waited_s: float) -> Prediction | None:
        outlook = self._outlook(live)
        return self.predictor.predict(
            outlook.ahead,
            live.work_tokens,
            rank=self._rank(live),
            alone_rate=outlook.alone_rate,
            now_s=now_s,
            waited_s=waited_s,
        )

    def _retry_after_s(self, live: LiveRequest, now_s: float, prediction: Prediction, target_s: float) -> float:
        rate = self._outlook(live).alone_rate
        return self.predictor.retry_after_s(
            prediction, target_s, live.work_tokens, rank=self._rank(live), alone_rate=rate, now_s=now_s
        )

    def _rank(self, live: LiveRequest) -> int:
        return self._ranks[live.service_class.name]

    def _forget(self, live: LiveRequest) -> None:
        self._arrivals.forget(live)
        self._unsettled.pop(live.request_id, None)


def _waited_s(live: LiveRequest, now_s: float) -> float:
    return max(now_s - live.request.arrival_s, 0.0)


def _is_owed(request: Request) -> bool:
    """Whether it was let in before, or is none of a user's."""
    return request.is_resumed or bool(request.output_ids) or request.is_warmup
