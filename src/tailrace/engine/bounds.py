"""How many requests may wait, and how many of one tenant may be here: who comes beyond that is refused. Takes no lock.

A request counts as queued from its submission until it first runs, and as its tenant's until it has ended.
"""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from tailrace.classes import STANDARD, ServiceClasses
from tailrace.errors import ContextTooLong, InvalidRequest, Overloaded, RefusalReason, SetupError, heeded_s
from tailrace.types import Request

__all__ = ["Bounds", "IntakeConfig"]

_SMOOTHING = 0.1  # of gaps and stays, with each: the memory of about ten


@dataclass(frozen=True, slots=True)
class IntakeConfig:
    """Requests that name no tenant are of one tenant together, so that to name none is no way around the limit."""

    max_queued: int
    max_queued_tokens: int
    max_model_tokens: int
    max_tenant_requests: int | None = None  # submitted and not ended; None: no limit
    classes: ServiceClasses = STANDARD

    def __post_init__(self) -> None:
        if self.max_tenant_requests is not None and self.max_tenant_requests < 1:
            raise SetupError(f"max_tenant_requests must be at least 1, or None, not {self.max_tenant_requests}")


@dataclass(frozen=True, slots=True)
class _Guest:
    tenant: str | None  # None: counts for nobody
    entered_s: float


class _Room(NamedTuple):
    num_requests: int
    num_tokens: int


class Bounds:
    """The lower a class ranks, the less of the queue it may fill: a flood of it leaves room for the others."""

    def __init__(self, config: IntakeConfig) -> None:
        self._config = config
        self._rooms = _rooms(config)
        self._queued: dict[str, int] = {}  # request id -> prompt tokens
        self._queued_tokens = 0
        self._guests: dict[str, _Guest] = {}
        self._tenants: Counter[str] = Counter()
        self._drain_rate = _DrainRate()
        self._mean_stay_s = 0.0

    def __contains__(self, request_id: str) -> bool:
        """Whether it has entered and not ended."""
        return request_id in self._guests

    @property
    def request_ids(self) -> tuple[str, ...]:
        """Of all that have entered and not ended."""
        return tuple(self._guests)

    @property
    def num_queued(self) -> int:
        return len(self._queued)

    def check(self, request: Request) -> None:
        """Raises InvalidRequest, ContextTooLong or Overloaded when it may not enter. Who was let in before may."""
        if request.request_id in self._guests:
            raise InvalidRequest(f"request id {request.request_id!r} is in use: choose another", param="request_id")
        self._check_length(request)
        if not request.is_resumed:
            self._check_tenant(request)
            self._check_room(request)

    def enter(self, request: Request, now_s: float) -> None:
        tenant = None if request.is_warmup else request.tenant
        self._guests[request.request_id] = _Guest(tenant, now_s)
        self._queued[request.request_id] = request.num_prompt_tokens
        self._queued_tokens += request.num_prompt_tokens
        if tenant is not None:
            self._tenants[tenant] += 1

    def start(self, request_id: str, now_s: float) -> None:
        """It waits no longer; harmless when it did not."""
        num_tokens = self._queued.pop(request_id, None)
        if num_tokens is not None:
            self._queued_tokens -= num_tokens
            self._drain_rate.count(now_s, is_last=not self._queued)

    def end(self, request_id: str, now_s: float) -> None:
        """It is gone; harmless when it was."""
        self.start(request_id, now_s)
        guest = self._guests.pop(request_id, None)
        if guest is None or guest.tenant is None:
            return
        self._tenants[guest.tenant] -= 1
        if not self._tenants[guest.tenant]:
            del self._tenants[guest.tenant]
        self._mean_stay_s += _SMOOTHING * (now_s - guest.entered_s - self._mean_stay_s)

    def _check_length(self, request: Request) -> None:
        limit = self._config.max_model_tokens
        if request.num_prompt_tokens >= limit:
            raise ContextTooLong(
                f"the prompt has {request.num_prompt_tokens} tokens; the context holds {limit}, answer included",
                param="messages",
            )

    def _check_tenant(self, request: Request) -> None:
        limit = self._config.max_tenant_requests
        if limit is None or request.is_warmup or self._tenants[request.tenant] < limit:
            return
        raise Overloaded(
            f"{limit} requests of this tenant are here already, as many as one may have at once: "
            "send the next one when one of them has ended",
            retry_after_s=heeded_s(self._mean_stay_s / limit),
            reason=RefusalReason.TENANT_LIMIT,
        )

    def _check_room(self, request: Request) -> None:
        room = self._rooms.get(request.class_name, self._rooms[""])
        num_tokens = self._queued_tokens + request.num_prompt_tokens
        # A request longer than the whole bound still gets its turn when nothing else is queued.
        is_too_much = self._queued and num_tokens > room.num_tokens
        if len(self._queued) >= room.num_requests or is_too_much:
            raise Overloaded(
                f"{len(self._queued)} requests with {self._queued_tokens} prompt tokens are waiting: the queue is full",
                retry_after_s=self._drain_rate.seconds_for(len(self._queued)),
            )


def _rooms(config: IntakeConfig) -> dict[str, _Room]:
    """By name of class, what it may fill: the best one all, and each the less, but never less than half.

    The empty name is the default class.
    """
    whole = 2 * len(config.classes.classes)
    rooms = {
        each.name: _Room(
            -(-config.max_queued * (whole - rank) // whole), -(-config.max_queued_tokens * (whole - rank) // whole)
        )
        for rank, each in enumerate(config.classes)
    }
    return rooms | {"": rooms[config.classes.default_name]}


class _DrainRate:
    """How fast requests leave the queue while others wait behind them, for `Retry-After`. Idle time does not count."""

    def __init__(self) -> None:
        self._gap_s: float | None = None  # between departures, smoothed
        self._last_s: float | None = None  # of the latest departure, while the queue is not empty

    def count(self, now_s: float, *, is_last: bool) -> None:
        if self._last_s is not None:
            gap_s = now_s - self._last_s
            self._gap_s = gap_s if self._gap_s is None else self._gap_s + _SMOOTHING * (gap_s - self._gap_s)
        self._last_s = None if is_last else now_s

    def seconds_for(self, num_requests: int) -> float:
        return heeded_s((self._gap_s or 0.0) * num_requests)
