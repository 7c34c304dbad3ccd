"""Who waits, and who is next: by class and age, in turns between tenants, and nobody for ever."""

import math
from collections.abc import Callable, Collection, Iterator
from heapq import merge
from itertools import takewhile
from operator import attrgetter

from tailrace.classes import ServiceClass, ServiceClasses
from tailrace.scheduler.ageing import Cohorts, LongestWait
from tailrace.scheduler.lifecycle import RequestState
from tailrace.scheduler.line import ClassLine
from tailrace.scheduler.live import Awaited, LiveRequest
from tailrace.scheduler.nearly_sorted import NearlySorted
from tailrace.scheduler.waiting import Expiry, WaitingRequest

__all__ = ["WaitingQueue"]

_SHORTEST_S = 0.1  # of a queue in which nobody waits longer, nobody has grown old


class WaitingQueue:
    """All that wait for their admission, ready or deferred. Work is counted in tokens that are to be computed.

    Next comes the oldest request of a class that has not had its share (`Share`), if there is one. Else it is the turn
    of the class in which

        priority x (1 + waited / longest)

    is greatest; `waited` is that of its oldest, and `longest` the longest wait of those that ended within a minute and
    of those that go on. A better class wins a tie: fresh work goes before fully aged work of half its priority.
    In the class it is the turn of the tenant that has had least (`TenantTurns`). Of its requests the oldest cohort goes
    first, those that came within an eighth of the longest wait (`Cohorts`), and in this the one with the least slack,
    the least work, the earliest arrival.

    No request waits for ever. From when it is ready, and if it and those before it stay so, no more than

        (older + own) / share + (classes + 1) x largest

    tokens are admitted before it: `older` is the work of the earlier arrivals of its class that wait, `own` is its own,
    `share` is that of its class, `largest` the most work of one request in this time. For
    when (older + own) / share have been admitted, its class has saved up for all of them. Then who was due first goes
    first: of each class what was due before, together no more than was admitted meanwhile and one request of each
    class; and one that was admitted just before anything was due.

    Slack is the deadline less what the work takes at `seconds_per_token`, as that was when the request came. Nothing
    that orders requests changes while they wait, so a decision looks at the first of each class, however many wait.

    A preempted or deferred request comes back with the age it has. Before all others goes the `favoured` one, for which
    others gave way; what is admitted so comes on top of the bound.
    """

    def __init__(self, classes: ServiceClasses) -> None:
        self.seconds_per_token = 0.0
        self._lines = {each.name: ClassLine(each) for each in classes}  # best first
        self._num_tokens = dict.fromkeys(self._lines, 0)  # of the deferred, too
        self.num_by_class = dict.fromkeys(self._lines, 0)  # best first; the deferred, too
        self._requests: dict[str, WaitingRequest] = {}
        self._expiries: dict[str, NearlySorted[Expiry]] = {each.name: NearlySorted() for each in classes}
        self._deferred: dict[Awaited, dict[str, LiveRequest]] = {}
        self._awaited: dict[str, Awaited] = {}
        self._favoured: LiveRequest | None = None
        self._waits = LongestWait()
        self._num_admitted = 0  # tokens
        self._longest_s = _SHORTEST_S  # as of the last decision
        self._cohorts = Cohorts()

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[LiveRequest]:
        """By arrival, and the deferred behind all that are ready."""
        for *_, request in merge(*(line.by_age for line in self._lines.values())):
            yield request.live
        for group in self._deferred.values():
            yield from group.values()

    @property
    def num_tokens(self) -> int:
        """The work of all that wait."""
        return sum(self._num_tokens.values())

    @property
    def num_deferred(self) -> int:
        return len(self._awaited)

    @property
    def next_expiry_s(self) -> float | None:
        return min((each.first[0] for each in self._expiries.values() if each), default=None)

    def tokens_ahead(self, service_class: ServiceClass, tenant: str) -> int:
        """The work before who comes now: what waits in better classes, and in its own before this tenant's next turn.

        Shares of classes and age are left out.
        """
        return self._ahead(self._num_tokens, service_class, tenant)

    def requests_ahead(self, service_class: ServiceClass, tenant: str) -> int:
        """How many these are."""
        return self._ahead(self.num_by_class, service_class, tenant)

    def first(self, now_s: float) -> LiveRequest | None:
        """Who should be admitted next. It stays in the queue until it is: see `admitted`."""
        if self._favoured is not None:
            return self._favoured
        ready = [line for line in self._lines.values() if line.by_age]
        if not ready:
            return None
        waited_s = now_s - min([line.oldest_s for line in ready])
        longest_s = self._longest_s = max(self._waits.at(now_s), waited_s, _SHORTEST_S)
        line = min(ready, key=_due)
        if line.due <= self._num_admitted:
            return line.oldest.live
        return max(ready, key=lambda line: line.weight(now_s, longest_s)).first.live

    @property
    def favoured(self) -> LiveRequest | None:
        """A ready request for which others gave way: it is next, whoever waits."""
        return self._favoured

    def favour(self, live: LiveRequest) -> None:
        self._favoured = live

    def disfavour(self, live: LiveRequest) -> None:
        """Let it wait for its turn, if it was favoured."""
        if live is self._favoured:
            self._favoured = None

    def fronts(self) -> Iterator[LiveRequest]:
        """The first of each class that has somebody ready, the best class first."""
        return (line.first.live for line in self._lines.values() if line.by_age)

    def push(self, live: LiveRequest) -> None:
        """A request is ready: a new one, or one that ran before, which has no time to start any more."""
        cohort_s = self._cohorts.of(live.request.arrival_s, self._longest_s)
        may_expire = live.started_s is None and not live.request.output_ids
        request = WaitingRequest(live, cohort_s, may_expire=may_expire)
        self._requests[live.request_id] = request
        self.num_by_class[live.service_class.name] += 1
        self._enter(request)
        if request.may_expire:
            self._expiries[live.service_class.name].add(request.expiry)

    def remove(self, live: LiveRequest) -> None:
        """Take out a request, ready or deferred, that will not start."""
        request = self._leave(live)
        if live.state is RequestState.DEFERRED:
            self._leave_group(live)
        else:
            self._line_of(live).remove(request)

    def admitted(self, live: LiveRequest, num_tokens: int, now_s: float) -> None:
        """Take out a ready request that starts now, with so much work. It counts for its class and its tenant."""
        request = self._leave(live)
        self._line_of(live).start(request, num_tokens, self._num_admitted)
        self._num_admitted += num_tokens
        if request.may_expire:  # not one that had run for a part of the time
            self._waits.observe(now_s - live.request.arrival_s, now_s)

    def served(self, live: LiveRequest, num_tokens: int) -> None:
        """A running request was served so many more tokens, which count for its tenant."""
        self._line_of(live).served(live.request.tenant, num_tokens)

    def expire(self, now_s: float) -> list[LiveRequest]:
        """Take out those that should have started by now."""
        expired = []
        for expiries in self._expiries.values():
            while expiries and expiries.first[0] <= now_s:
                live = expiries.first[-1].live
                self.remove(live)
                expired.append(live)
        return expired

    def defer(self, live: LiveRequest, awaited: Awaited) -> None:
        """Set a ready request aside until `awaited` is no longer pending."""
        self.disfavour(live)
        self._line_of(live).remove(self._requests[live.request_id])
        live.move(RequestState.DEFERRED)
        self._deferred.setdefault(awaited, {})[live.request_id] = live
        self._awaited[live.request_id] = awaited

    def wake(
        self, is_pending: Callable[[Awaited], bool], look_again: Callable[[Awaited, Collection[LiveRequest]], None]
    ) -> None:
        """Put back those whose prefix is sealed or answered for, or whose leader is gone, with what work is left.

        `look_again` finds that out.
        """
        for awaited in [awaited for awaited in self._deferred if not is_pending(awaited)]:
            lives = self._deferred.pop(awaited).values()
            look_again(awaited, lives)
            for live in lives:
                del self._awaited[live.request_id]
                live.move(RequestState.WAITING)
                request = self._requests[live.request_id]
                self._num_tokens[live.service_class.name] -= request.work_tokens
                self._enter(request)

    def _enter(self, request: WaitingRequest) -> None:
        request.look(self.seconds_per_token)
        self._num_tokens[request.live.service_class.name] += request.work_tokens
        self._line_of(request.live).add(request, self._num_admitted)

    def _leave(self, live: LiveRequest) -> WaitingRequest:
        self.disfavour(live)
        request = self._requests.pop(live.request_id)
        self.num_by_class[live.service_class.name] -= 1
        self._num_tokens[live.service_class.name] -= request.work_tokens
        if request.may_expire:
            self._expiries[live.service_class.name].remove(request.expiry)
        return request

    def _leave_group(self, live: LiveRequest) -> None:
        awaited = self._awaited.pop(live.request_id)
        group = self._deferred[awaited]
        del group[live.request_id]
        if not group:
            del self._deferred[awaited]

    def _ahead(self, counts: dict[str, int], service_class: ServiceClass, tenant: str) -> int:
        name = service_class.name
        above = sum(counts[each] for each in takewhile(name.__ne__, counts))
        return above + math.ceil(counts[name] * self._lines[name].share_ahead(tenant))

    def _line_of(self, live: LiveRequest) -> ClassLine:
        return self._lines[live.service_class.name]


_due = attrgetter("due")
