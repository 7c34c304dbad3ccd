"""When the first token of a request would come if it were queued now, and when to come back instead.

Learns from steps how fast what waits is let in, by what keeps it waiting. Knows no queue and no clock: who waits ahead,
and what is free, is told with each question.
"""

import math
from collections import deque
from collections.abc import Sequence
from enum import Enum, auto
from statistics import median
from typing import NamedTuple

from tailrace.errors import MAX_RETRY_S, MIN_RETRY_S, heeded_s

__all__ = ["Ahead", "Prediction", "Shortage", "TtftPredictor"]

_MEMORY_S = 10.0  # of rates, in seconds of stepping
_PRIOR_S = 0.25  # what is computed alone counts as having been measured for so long
_KNOWN_S = 0.5  # of a shortage, measured, from which on its rate is believed
_ARRIVALS_S = 30.0  # memory of who arrives, in seconds of the clock
_NUM_ERRORS = 256  # the latest, of which there is a median
_SMOOTHING = 0.1  # of what was found, with each request: the memory of about ten
_LEAST_RATE = 1.0 / 3_600.0  # things a second: that nothing was had for longer tells no more
_LEAST_QUEUED_S = 0.05  # a step or two: who was queued no longer shows only when in a step it came
_MOST_LOG = math.log(8.0)  # beyond, something else was wrong than the order


class Shortage(Enum):
    """What kept requests waiting in a step: the first that stopped the next one of them."""

    TOKENS = auto()  # the step computed as much of prompts as it may when some would be late
    PLACES = auto()  # as many ran as may run at once
    ROOM = auto()  # no KV blocks were left


class Ahead(NamedTuple):
    """What comes before a request that arrives now, of its class and those above, and what is free."""

    num_tokens: int  # uncached: of those that wait, and what is left of prompts that are being computed
    num_requests: int  # those that wait
    num_free_places: int
    num_free_tokens: int  # for which there are KV blocks
    is_idle: bool = False  # nobody of any class runs or waits


class Prediction(NamedTuple):
    """Seconds from its arrival to a request's first token: as things are, and if it were alone here.

    `queued_s` is how much longer than alone it takes by the work ahead, before what others found is heeded.
    """

    ttft_s: float
    alone_s: float
    queued_s: float = 0.0
    own_tokens: int = 0  # uncached, when it arrived


class TtftPredictor:
    """Classes are numbered by falling rank; `shares` has what each gets of the work at least, above 0.

    The rate at which prompts are computed while they wait starts as what the step-time model says of prompts alone, and
    goes back there while nobody waits for it: were a rate that was measured too low believed for ever, too few would be
    let in to measure it again.
    """

    def __init__(self, shares: Sequence[float]) -> None:
        self._shares = shares
        self._rates = {shortage: _Rate() for shortage in Shortage}
        self._arrivals = [_Arrivals() for _ in shares]
        self._sent_away = [_SentAway() for _ in shares]
        self._found = _Found()
        self._errors: deque[float] = deque(maxlen=_NUM_ERRORS)
        self._unfaded_s = 0.0  # of steps since the rates last faded

    def observe_step(
        self,
        took_s: float,
        shortage: Shortage | None,
        *,
        num_prefill_tokens: int,
        num_started: int,
        num_started_tokens: int,
    ) -> None:
        """A step of `took_s`, in which waiting requests lacked `shortage`, or nothing.

        It computed so many tokens of prompts, and started so many requests, with so many uncached tokens together.
        """
        self._unfaded_s += took_s
        if shortage is None:
            return
        self._fade()
        if num_prefill_tokens or shortage is Shortage.TOKENS:  # whatever they lack, so fast are they had, if they began
            self._rates[Shortage.TOKENS].observe(num_prefill_tokens, took_s)
        if shortage is Shortage.PLACES:
            self._rates[shortage].observe(num_started, took_s)
        elif shortage is Shortage.ROOM:
            self._rates[shortage].observe(num_started_tokens, took_s)

    def _fade(self) -> None:
        """Let what was seen count as much less as time has passed."""
        keep, self._unfaded_s = math.exp(-self._unfaded_s / _MEMORY_S), 0.0
        for rate in self._rates.values():
            rate.fade(keep)

    def observe_arrival(self, rank: int, num_tokens: int, now_s: float) -> None:
        """A request of so many uncached tokens was queued."""
        self._arrivals[rank].observe(num_tokens, now_s)

    def predict(
        self, ahead: Ahead, own_tokens: int, *, rank: int, alone_rate: float | None, now_s: float, waited_s: float = 0.0
    ) -> Prediction | None:
        """For a request of `own_tokens` uncached tokens that has waited for `waited_s`; None: too little is known.

        `alone_rate` is how many tokens of a prompt are computed in a second when nobody else is there.

            drain  = rate - what arrives in the classes above, but no less than the share of this class
            queued = max(tokens ahead / drain, time until there is a place, or room) + own / drain - alone
            ttft   = alone + queued x what others of its class and length have found lately

        In which order others come, who is as short or as urgent, is not known here; what comes of it, that factor says.
        Who has the machine for itself does not heed what was measured while others had it.
        """
        if ahead.is_idle and alone_rate is not None:
            alone_s = own_tokens / alone_rate
            return Prediction(waited_s + alone_s, alone_s, own_tokens=own_tokens)
        self._fade()
        rate = self._rates[Shortage.TOKENS].per_s(alone_rate)
        if rate is None:
            return None
        drain = self._drain(rate, rank, now_s)
        scarce_s = max(
            self._wait_s(Shortage.PLACES, ahead.num_requests + 1 - ahead.num_free_places),
            self._wait_s(Shortage.ROOM, ahead.num_tokens + own_tokens - ahead.num_free_tokens),
        )
        ttft_s = max(ahead.num_tokens / drain, scarce_s * rate / drain) + own_tokens / drain
        alone_s = min(own_tokens / (alone_rate or rate), ttft_s)
        queued_s = ttft_s - alone_s
        found_s = queued_s * self._found.factor(rank, own_tokens)
        return Prediction(waited_s + alone_s + found_s, alone_s, queued_s, own_tokens)

    def retry_after_s(
        self,
        prediction: Prediction,
        target_s: float,
        own_tokens: int,
        *,
        rank: int,
        alone_rate: float | None,
        now_s: float,
    ) -> float:
        """Send a request away: when it would meet its target again, behind those of its class sent away before.

        If all were told the same second, that second would be as bad.
        """
        self._fade()
        rate = self._rates[Shortage.TOKENS].per_s(alone_rate)
        if rate is None:
            return MIN_RETRY_S
        drain = self._drain(rate, rank, now_s)
        before_s = self._sent_away[rank].seconds_before(own_tokens, drain, now_s)
        return heeded_s(prediction.ttft_s - target_s + before_s)

    def settle(self, prediction: Prediction, actual_s: float, *, rank: int) -> None:
        """The first token of a request came; what had been predicted for it."""
        if actual_s > 0.0:
            self._errors.append(abs(prediction.ttft_s - actual_s) / actual_s)
        self._found.learn(prediction, actual_s, rank)

    @property
    def median_error(self) -> float | None:
        """Of the last few hundred predictions, relative to what came; None before the first."""
        return median(self._errors) if self._errors else None

    def _drain(self, rate: float, rank: int, now_s: float) -> float:
        above = sum(arrivals.per_s(now_s) for arrivals in self._arrivals[:rank])
        return max(rate - above, rate * self._shares[rank])

    def _wait_s(self, shortage: Shortage, num_missing: int) -> float:
        """Until so many places, or tokens, that are missing now have been had."""
        if num_missing <= 0:
            return 0.0
        rate = self._rates[shortage].per_s(None)
        return num_missing / rate if rate else 0.0  # not known to be scarce


class _Rate:
    """Things per second, over seconds in which more of them were wanted."""

    __slots__ = ("_count", "_seconds")

    def __init__(self) -> None:
        self._count = 0.0
        self._seconds = 0.0

    def fade(self, keep: float) -> None:
        self._count *= keep
        self._seconds *= keep

    def observe(self, count: int, took_s: float) -> None:
        self._count += count
        self._seconds += took_s

    def per_s(self, prior: float | None) -> float | None:
        if prior is not None:
            return (self._count + prior * _PRIOR_S) / (self._seconds + _PRIOR_S)
        is_known = self._seconds >= _KNOWN_S and self._count
        return max(self._count / self._seconds, _LEAST_RATE) if is_known else None


class _Arrivals:
    """Tokens per second that a class brought of late."""

    __slots__ = ("_now_s", "_tokens")

    def __init__(self) -> None:
        self._tokens = 0.0
        self._now_s = 0.0

    def observe(self, num_tokens: int, now_s: float) -> None:
        self._tokens = self.per_s(now_s) * _ARRIVALS_S + num_tokens
        self._now_s = now_s

    def per_s(self, now_s: float) -> float:
        return self._tokens * math.exp(min(self._now_s - now_s, 0.0) / _ARRIVALS_S) / _ARRIVALS_S


class _SentAway:
    """Tokens of requests that were told to come back, less what could have been computed since."""

    __slots__ = ("_now_s", "_tokens")

    def __init__(self) -> None:
        self._tokens = 0.0
        self._now_s = 0.0

    def seconds_before(self, num_tokens: int, drain: float, now_s: float) -> float:
        """What those sent away before take to be computed; counts this one among them."""
        left = max(self._tokens - drain * max(now_s - self._now_s, 0.0), 0.0)
        self._tokens = min(left + num_tokens, MAX_RETRY_S * drain)
        self._now_s = now_s
        return left / drain


class _Found:
    """How many times as long as foretold requests were queued: means of logarithms, by class and length.

    What was hardly to be queued, or hardly was, says little: each time counts as if it were a part longer.
    """

    def __init__(self) -> None:
        self._logs: dict[tuple[int, int], float] = {}

    def factor(self, rank: int, own_tokens: int) -> float:
        return math.exp(self._logs.get((rank, own_tokens.bit_length()), 0.0))

    def learn(self, prediction: Prediction, actual_s: float, rank: int) -> None:
        key = rank, prediction.own_tokens.bit_length()
        least_s = _LEAST_QUEUED_S + prediction.alone_s / 4
        ratio = (max(actual_s - prediction.alone_s, 0.0) + least_s) / (prediction.queued_s + least_s)
        found = min(max(math.log(ratio), -_MOST_LOG), _MOST_LOG)
        before = self._logs.get(key, 0.0)
        self._logs[key] = before + _SMOOTHING * (found - before)
