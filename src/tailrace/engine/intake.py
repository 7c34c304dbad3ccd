"""Where requests wait to be picked up by the step loop: a bounded inbox that any thread may write to.

A refusal is immediate, and a look into the inbox is short: a storm of arrivals or aborts is taken in bit by bit,
between steps, while streams go on.
"""

import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from tailrace.engine.bounds import Bounds, IntakeConfig
from tailrace.engine.inbox import Inbox
from tailrace.errors import Overloaded, UnavailableError
from tailrace.types import CacheQuery, FinishReason, Request

__all__ = ["Intake", "IntakeConfig", "IntakeMessages"]

_MAX_QUERIES = 64  # asked and not yet taken; the loop takes all of them before each step
_QUERY_RETRY_S = 1.0
_SOME, _SOME_TOKENS = 16, 2048  # requests, and aborts, that take about a millisecond to act upon


@dataclass(frozen=True, slots=True)
class IntakeMessages:
    """What arrived since the last look, or part of it. The scheduler never knew of those withdrawn."""

    requests: tuple[Request, ...]
    withdrawn: tuple[tuple[Request, FinishReason], ...]
    aborts: tuple[tuple[str, FinishReason], ...]
    pauses: tuple[tuple[str, bool], ...]  # request ids, and whether they pause now or proceed
    queries: tuple[CacheQuery, ...]
    is_closed: bool
    is_partial: bool = False  # there is more


class Intake:
    def __init__(self, config: IntakeConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._bounds = Bounds(config)
        self._inbox = Inbox()
        self._withdrawn: deque[tuple[Request, FinishReason]] = deque()
        self._aborts: OrderedDict[str, FinishReason] = OrderedDict()
        self._pauses: dict[str, bool] = {}
        self._queries: deque[CacheQuery] = deque()
        self._is_closed = False
        self._is_woken = False

    def submit(self, request: Request) -> None:
        """Queue a request. It arrives now, unless it was let in before.

        Raises InvalidRequest, ContextTooLong, Overloaded, UnavailableError.
        """
        with self._changed:
            if self._is_closed:
                raise UnavailableError("the engine has stopped and takes no more requests")
            self._bounds.check(request)
            now_s = self._clock()
            self._bounds.enter(request, now_s)
            self._inbox.put(request if request.is_resumed else replace(request, arrival_s=now_s))
            self._changed.notify()

    def abort(self, request_id: str, reason: FinishReason = FinishReason.ABORT) -> None:
        """End a request; one that is unknown, or has ended, is ignored, so that no storm of them can grow."""
        with self._changed:
            request = self._inbox.withdraw(request_id)
            if request is not None:
                self._withdrawn.append((request, reason))
            elif request_id in self._bounds:
                self._aborts.setdefault(request_id, reason)
            else:
                return
            self._changed.notify()

    def pause(self, request_id: str) -> None:
        """Compute no more of a request until `proceed`; one that is unknown, or has ended, is ignored."""
        self._set_paused(request_id, is_paused=True)

    def proceed(self, request_id: str) -> None:
        """Go on with a request that was paused."""
        self._set_paused(request_id, is_paused=False)

    def _set_paused(self, request_id: str, *, is_paused: bool) -> None:
        with self._changed:
            if request_id in self._bounds:
                self._pauses[request_id] = is_paused
                self._changed.notify()

    def ask(self, query: CacheQuery) -> None:
        """Queue a question to the engine. Raises Overloaded, UnavailableError."""
        with self._changed:
            if self._is_closed:
                raise UnavailableError("the engine has stopped and answers no more")
            if len(self._queries) >= _MAX_QUERIES:
                raise Overloaded(
                    f"{len(self._queries)} questions about the cache wait already: ask again in {_QUERY_RETRY_S:.0f} s",
                    retry_after_s=_QUERY_RETRY_S,
                )
            self._queries.append(query)
            self._changed.notify()

    def close(self) -> None:
        """Take no more requests; what is inside can still be taken out."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def take(self) -> IntakeMessages:
        """Everything new, without waiting. Requests are in order of arrival."""
        return self._take(sys.maxsize, sys.maxsize)

    def take_some(self) -> IntakeMessages:
        """As much of it as can be acted upon in about a millisecond; one long request may take more."""
        return self._take(_SOME, _SOME_TOKENS)

    def wake(self) -> None:
        """Let whoever waits look around, though there may be nothing to take here."""
        with self._changed:
            self._is_woken = True
            self._changed.notify()

    def wait(self, timeout_s: float | None = None) -> None:
        """Sleep until there is something to take or somebody calls `wake`, or for `timeout_s`."""
        with self._changed:
            self._changed.wait_for(lambda: self.has_news, timeout_s)

    def started(self, request_id: str, now_s: float) -> None:
        """The scheduler runs this request now; repeated calls are harmless."""
        with self._changed:
            self._bounds.start(request_id, now_s)

    def ended(self, request_id: str, now_s: float) -> None:
        """This request is over; repeated calls are harmless."""
        with self._changed:
            self._bounds.end(request_id, now_s)
            self._aborts.pop(request_id, None)
            self._pauses.pop(request_id, None)

    @property
    def num_queued(self) -> int:
        return self._bounds.num_queued

    @property
    def request_ids(self) -> tuple[str, ...]:
        """Of all requests that were submitted and have not ended."""
        with self._changed:
            return self._bounds.request_ids

    @property
    def has_news(self) -> bool:
        """Whether there is something to take, or there was when others last changed it: asked without the lock."""
        return self._has_requests or bool(self._queries or self._is_closed or self._is_woken)

    @property
    def _has_requests(self) -> bool:
        return bool(self._inbox or self._withdrawn or self._aborts or self._pauses)

    def _take(self, most: int, most_tokens: int) -> IntakeMessages:
        with self._changed:
            requests = self._take_requests(most, most_tokens)
            withdrawn = [self._withdrawn.popleft() for _ in range(min(most, len(self._withdrawn)))]
            aborts = [self._aborts.popitem(last=False) for _ in range(min(most, len(self._aborts)))]
            pauses = tuple(pause for pause in self._pauses.items() if pause[0] not in self._inbox)
            for request_id, _ in pauses:
                del self._pauses[request_id]
            queries = tuple(self._queries)
            self._queries.clear()
            self._is_woken = False
            return IntakeMessages(
                requests,
                tuple(withdrawn),
                tuple(aborts),
                pauses,
                queries,
                self._is_closed,
                is_partial=self._has_requests,
            )

    def _take_requests(self, most: int, most_tokens: int) -> tuple[Request, ...]:
        requests: list[Request] = []
        num_tokens = 0
        while self._inbox and len(requests) < most and num_tokens < most_tokens:
            requests.append(self._inbox.pop())
            num_tokens += requests[-1].num_prompt_tokens
        return tuple(sorted(requests, key=_arrival))


def _arrival(request: Request) -> float:
    return request.arrival_s
