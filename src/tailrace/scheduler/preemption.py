"""Who pays when there is no room: for a stream that needs a block, or for a first token that would come too late."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from tailrace.errors import SetupError
from tailrace.records import PreemptionCount
from tailrace.scheduler.live import LiveRequest, Loss
from tailrace.scheduler.restoring import RestoreCosts, num_blocks_gained
from tailrace.types import PreemptionCause

__all__ = ["Need", "PreemptionConfig", "Preemptor"]

_WORK_MARGIN = 1.25  # times its work: until its first token it shares steps with others
_OFTEN = 3  # preempted so many times, a request is spared while others of its class were not
_NEW_SHARE = 0.25  # of the time that the last preempted request was away, in what is expected of the next


@dataclass(frozen=True, slots=True)
class PreemptionConfig:
    """How much a better class may take from a lower one. Want of blocks takes what it must.

    That it takes little: of all tokens, at most `max_lost_share` are computed again for others' deadlines, and
    `burst_tokens` besides. That everybody gets on: who came back computes `min_tokens_between` tokens before it gives
    way again, and it gives way only so many times, as its class says.
    """

    patience: float = 0.25  # of its TTFT target: so long it waits for somebody to end before others pay
    min_tokens_between: int = 16
    max_lost_share: float = 0.1
    burst_tokens: int = 4_096

    def __post_init__(self) -> None:
        for name in ("patience", "max_lost_share"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise SetupError(f"{name} of preemption must lie in [0, 1], not {getattr(self, name)}")
        for name in ("min_tokens_between", "burst_tokens"):
            if getattr(self, name) < 0:
                raise SetupError(f"{name} of preemption must be at least 0, not {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class Need:
    """What a waiting request lacks."""

    num_blocks: int
    num_places: int  # in the running set; more than one where more run than may

    def __bool__(self) -> bool:
        return bool(self.num_blocks or self.num_places)


class Preemptor:
    """Chooses victims and keeps count of them; who stops them is the scheduler.

    A victim is of the lowest class that runs, and of these the cheapest to restore; see `RestoreCosts.price_s`.
    """

    def __init__(self, config: PreemptionConfig) -> None:
        self.config = config
        self._allowance = float(config.burst_tokens)  # tokens that may be lost for deadlines
        self._out_s = 0.0  # how long preempted requests were away, of late
        self._counts: dict[tuple[str, PreemptionCause], PreemptionCount] = {}
        self.counts: tuple[PreemptionCount, ...] = ()

    def victim_for_room(self, running: Iterable[LiveRequest], costs: RestoreCosts, now_s: float) -> LiveRequest:
        """Who gives its blocks to streams that need them. There must be somebody.

        While others run it is never the oldest of the best class: that one ends, whatever happens. Who paid often is
        spared, as long as others of its class have not.
        """
        lives = list(running)
        oldest = min(lives, key=_seniority)
        others = [live for live in lives if live is not oldest]
        return min(others, key=lambda live: self._room_rank(live, costs, now_s), default=oldest)

    def victims_for(
        self,
        candidate: LiveRequest,
        need: Need,
        running: Iterable[LiveRequest],
        costs: RestoreCosts,
        now_s: float,
    ) -> tuple[LiveRequest, ...]:
        """Who gives way so that the first token of one of a better class comes in time.

        Nobody, while it can still wait, when it cannot be helped, when enough others are about to end, or when those of
        lower classes do not have what it lacks or have given enough.
        """
        if not self.is_pressed(candidate, costs.seconds_per_token, now_s):
            return ()
        lives, wait_s = list(running), _last_wait_s(candidate, costs.seconds_per_token, now_s)
        if _are_enough([live for live in lives if _ends_within(live, wait_s / 2)], need):
            return ()
        rank = candidate.service_class.priority
        able = [live for live in lives if live.service_class.priority < rank and self._may_yield(live)]
        able.sort(key=lambda live: self._yield_rank(live, costs, now_s))
        victims = _fewest(able, need)
        num_lost = sum(costs.num_tokens(live) for live in victims)
        return tuple(victims) if num_lost <= self._allowance else ()

    def is_pressed(self, candidate: LiveRequest, seconds_per_token: float, now_s: float) -> bool:
        """Whether it has waited its part, and its first token may still come in time."""
        if candidate.deadline_s == inf:
            return False
        target_s = candidate.deadline_s - candidate.request.arrival_s
        return 0.0 <= _last_wait_s(candidate, seconds_per_token, now_s) <= (1.0 - self.config.patience) * target_s

    def preempted(self, live: LiveRequest, cause: PreemptionCause, costs: RestoreCosts, now_s: float) -> None:
        """A request is about to give its blocks back."""
        num_lost = costs.num_tokens(live)
        live.loss = Loss(cause, now_s, live.num_computed, num_lost)
        live.num_preemptions += 1
        if cause is PreemptionCause.DEADLINE:
            live.num_yields += 1
            self._allowance -= num_lost
        self._count(live, cause, num_requests=1)

    def resumed(self, live: LiveRequest, now_s: float) -> None:
        """A request has blocks again; what it had computed and did not find is lost. Harmless for a newcomer."""
        loss, live.loss = live.loss, None
        if loss is None:
            return
        live.resumed_length = len(live.token_ids)
        num_lost = max(loss.num_computed - live.num_computed, 0)
        self._out_s += _NEW_SHARE * (now_s - loss.at_s - self._out_s)
        if loss.cause is PreemptionCause.DEADLINE:
            self._allow(loss.num_expected - num_lost)
        self._count(live, loss.cause, num_lost_tokens=num_lost)

    def computed(self, num_tokens: int) -> None:
        """A step computed so many tokens."""
        self._allow(self.config.max_lost_share * num_tokens)

    def _allow(self, num_tokens: float) -> None:
        self._allowance = min(self._allowance + num_tokens, float(self.config.burst_tokens))

    def _room_rank(self, live: LiveRequest, costs: RestoreCosts, now_s: float) -> tuple[bool, float, bool, float, int]:
        return (
            not num_blocks_gained(live),
            live.service_class.priority,
            live.num_preemptions >= _OFTEN,
            costs.price_s(live, now_s, self._out_s),
            -live.arrival_rank,
        )

    def _yield_rank(self, live: LiveRequest, costs: RestoreCosts, now_s: float) -> tuple[float, float, int]:
        return live.service_class.priority, costs.price_s(live, now_s, self._out_s), -live.arrival_rank

    def _may_yield(self, live: LiveRequest) -> bool:
        if not live.may_yield:
            return False
        is_back = live.num_preemptions > 0
        return not is_back or len(live.token_ids) - live.resumed_length >= self.config.min_tokens_between

    def _count(
        self, live: LiveRequest, cause: PreemptionCause, *, num_requests: int = 0, num_lost_tokens: int = 0
    ) -> None:
        name = live.service_class.name
        count = self._counts.get((name, cause), PreemptionCount(name, cause))
        self._counts[name, cause] = count._replace(
            num_requests=count.num_requests + num_requests, num_lost_tokens=count.num_lost_tokens + num_lost_tokens
        )
        self.counts = tuple(self._counts.values())


def _seniority(live: LiveRequest) -> tuple[float, int]:
    return -live.service_class.priority, live.arrival_rank


def _last_wait_s(candidate: LiveRequest, seconds_per_token: float, now_s: float) -> float:
    """How long it can still wait before it starts."""
    return candidate.deadline_s - now_s - _WORK_MARGIN * candidate.work_tokens * seconds_per_token


def _ends_within(live: LiveRequest, seconds: float) -> bool:
    """Whether it reaches its longest output in that time, at the pace it has had."""
    num_gaps = live.num_output_tokens - 1
    if num_gaps < 1 or live.first_token_s is None or live.last_token_s is None:
        return False
    gap_s = (live.last_token_s - live.first_token_s) / num_gaps
    return (live.max_length - len(live.token_ids)) * gap_s <= seconds


def _are_enough(lives: Sequence[LiveRequest], need: Need) -> bool:
    return len(lives) >= need.num_places and sum(map(num_blocks_gained, lives)) >= need.num_blocks


def _fewest(lives: Sequence[LiveRequest], need: Need) -> list[LiveRequest]:
    """The first of these that are enough together, without those that then are not needed; none if all are too few."""
    chosen: list[LiveRequest] = []
    for live in lives:
        if chosen and _are_enough(chosen, need):
            break
        chosen.append(live)
    if not chosen or not _are_enough(chosen, need):
        return []
    for live in list(chosen):
        rest = [other for other in chosen if other is not live]
        if rest and _are_enough(rest, need):
            chosen = rest
    return chosen
