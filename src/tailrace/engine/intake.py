"""Where requests wait to be picked up by the step loop: a bounded inbox that any thread may write to.

A request counts as queued from its submission until the scheduler first runs it, so the bound covers both this inbox
and the scheduler's own queue, and a refusal is immediate.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from tailrace.errors import ContextTooLong, Overloaded, UnavailableError
from tailrace.types import FinishReason, Request

__all__ = ["Intake", "IntakeConfig", "IntakeMessages"]

_SMOOTHING = 0.1
_MIN_RETRY_S, _MAX_RETRY_S = 1.0, 60.0  # beyond a minute clients do not heed it


@dataclass(frozen=True, slots=True)
class IntakeConfig:
    max_queued: int
    max_queued_tokens: int
    max_model_tokens: int


@dataclass(frozen=True, slots=True)
class IntakeMessages:
    """What arrived since the last look."""

    requests: tuple[Request, ...]
    aborts: tuple[tuple[str, FinishReason], ...]
    is_closed: bool


class Intake:
    def __init__(self, config: IntakeConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._changed = threading.Condition()
        self._requests: deque[Request] = deque()
        self._aborts: deque[tuple[str, FinishReason]] = deque()
        self._queued: dict[str, int] = {}  # request id -> prompt tokens
        self._queued_tokens = 0
        self._drain_rate = _DrainRate()
        self._is_closed = False

    def submit(self, request: Request) -> None:
        """Queue a request, which arrives now. Raises ContextTooLong, Overloaded, UnavailableError."""
        self._check_length(request)
        with self._changed:
            if self._is_closed:
                raise UnavailableError("the engine has stopped and takes no more requests")
            self._check_room(request)
            self._queued[request.request_id] = request.num_prompt_tokens
            self._queued_tokens += request.num_prompt_tokens
            self._requests.append(replace(request, arrival_s=self._clock()))
            self._changed.notify()

    def abort(self, request_id: str, reason: FinishReason = FinishReason.ABORT) -> None:
        with self._changed:
            self._aborts.append((request_id, reason))
            self._changed.notify()

    def close(self) -> None:
        """Take no more requests; what is inside can still be taken out."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def take(self) -> IntakeMessages:
        """Everything new, without waiting."""
        with self._changed:
            messages = IntakeMessages(tuple(self._requests), tuple(self._aborts), self._is_closed)
            self._requests.clear()
            self._aborts.clear()
            return messages

    def wait(self) -> None:
        """Sleep until there is something to take."""
        with self._changed:
            self._changed.wait_for(lambda: self._requests or self._aborts or self._is_closed)

    def left_queue(self, request_id: str, now_s: float) -> None:
        """The scheduler runs this request now, or it has ended; repeated calls are harmless."""
        with self._changed:
            num_tokens = self._queued.pop(request_id, None)
            if num_tokens is not None:
                self._queued_tokens -= num_tokens
                self._drain_rate.count(now_s, is_last=not self._queued)

    @property
    def num_queued(self) -> int:
        return len(self._queued)

    def _check_length(self, request: Request) -> None:
        limit = self._config.max_model_tokens
        if request.num_prompt_tokens >= limit:
            raise ContextTooLong(
                f"the prompt has {request.num_prompt_tokens} tokens; the context holds {limit}, answer included",
                param="messages",
            )

    def _check_room(self, request: Request) -> None:
        config = self._config
        is_full = len(self._queued) >= config.max_queued
        # A request longer than the whole bound still gets its turn when nothing else is queued.
        has_tokens = self._queued and self._queued_tokens + request.num_prompt_tokens > config.max_queued_tokens
        if is_full or has_tokens:
            raise Overloaded(
                f"{len(self._queued)} requests with {self._queued_tokens} prompt tokens are waiting: the queue is full",
                retry_after_s=self._drain_rate.seconds_for(len(self._queued)),
            )


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
        return min(max((self._gap_s or 0.0) * num_requests, _MIN_RETRY_S), _MAX_RETRY_S)
