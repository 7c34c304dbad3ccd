"""Who has had how much: tenants within a class, and classes among all. Counts tokens, and knows no time."""

from dataclasses import dataclass, field

from tailrace.scheduler.sorted_set import SortedSet
from tailrace.scheduler.waiting import Place

__all__ = ["Share", "TenantTurns"]

MAX_IDLE_TENANTS = 4_096  # remembered; of the others it is forgotten that they have had more than their part


@dataclass(slots=True, eq=False)
class _Tenant:
    name: str
    num_served: float  # virtual: it began with what it would have had if it had always waited
    turn: int
    num_tokens: int = 0  # of those that wait
    requests: SortedSet[Place] = field(default_factory=SortedSet)

    @property
    def key(self) -> "_Turn":
        return self.num_served, self.turn, self


_Turn = tuple[float, int, _Tenant]


class TenantTurns:
    """The requests of one class that are ready. The tenant whose count of tokens is lowest has the next turn.

    Fair queueing with a virtual time in the manner of WF2Q+ (Bennett and Zhang, 1997): `_fair` is what a tenant has had
    that waited all the time and got its even part. It moves with each token served to those that wait, divided by their
    number, and stays between the least and the greatest of their counts. A tenant that begins to wait starts there, or
    at its own count if that is more: to have been idle is no credit, to have been greedy is not forgiven. If newcomers
    started at the least count instead, an unbroken chain of them could hold it down for ever, and all others up.

    When of two tenants alike, each within 80% of its even part, one bursts to 50 times its traffic, the P95 wait of the
    other moves by a factor of no more than 2.5, as it still has its half. (Simulated; in order of arrival: 39 to 74.)
    """

    def __init__(self) -> None:
        self._waiting: dict[str, _Tenant] = {}
        self._order: SortedSet[_Turn] = SortedSet()
        self._idle: dict[str, float] = {}  # counts, by when they became idle
        self._fair = 0.0
        self._num_turns = 0
        self._num_tokens = self._num_requests = 0  # that wait, of all tenants

    @property
    def first(self) -> Place:
        return self._order.first[2].requests.first

    def add(self, name: str, place: Place) -> None:
        tenant = self._waiting.get(name) or self._begin(name)
        tenant.requests.add(place)
        self._count(tenant, place, 1)

    def remove(self, name: str, place: Place) -> None:
        tenant = self._waiting[name]
        tenant.requests.remove(place)
        self._count(tenant, place, -1)
        if not tenant.requests:
            del self._waiting[name]
            self._order.remove(tenant.key)
            self._remember(name, tenant.num_served)
            if self._waiting:
                self._advance(0.0)

    def charge(self, name: str, num_tokens: int) -> None:
        """So many tokens were served to a tenant, whether it has more requests waiting or not."""
        tenant = self._waiting.get(name)
        if tenant is None:
            self._remember(name, self._idle.pop(name, self._fair) + num_tokens)
            return
        self._order.remove(tenant.key)
        self._enter(tenant, tenant.num_served + num_tokens)
        self._advance(num_tokens / len(self._waiting))

    def share_ahead(self, name: str) -> float:
        """Of the tokens that wait, the part that may be served before a request of `name` that comes now, 0 to 1.

        That is what waits of its own, and of each other tenant at the most what brings its count from the least of all
        to where this one's will be by then, and one request of usual length.
        """
        if not self._num_tokens:
            return 1.0
        tenant = self._waiting.get(name)
        own_tokens = tenant.num_tokens if tenant else 0
        count = tenant.num_served if tenant else max(self._idle.get(name, 0.0), self._fair)
        num_others = len(self._waiting) - (tenant is not None)
        each = count + own_tokens - self._order.first[0] + self._num_tokens / self._num_requests
        return min((own_tokens + num_others * each) / self._num_tokens, 1.0)

    def _count(self, tenant: _Tenant, place: Place, sign: int) -> None:
        num_tokens = sign * place[-1].work_tokens
        tenant.num_tokens += num_tokens
        self._num_tokens += num_tokens
        self._num_requests += sign

    def _begin(self, name: str) -> _Tenant:
        tenant = self._waiting[name] = _Tenant(name, 0.0, 0)
        self._enter(tenant, max(self._idle.pop(name, 0.0), self._fair))
        self._advance(0.0)
        return tenant

    def _enter(self, tenant: _Tenant, num_served: float) -> None:
        self._num_turns += 1
        tenant.num_served, tenant.turn = num_served, self._num_turns
        self._order.add(tenant.key)

    def _advance(self, num_tokens: float) -> None:
        self._fair = min(max(self._fair + num_tokens, self._order.first[0]), self._order.last[0])

    def _remember(self, name: str, num_served: float) -> None:
        self._idle[name] = num_served
        if len(self._idle) > MAX_IDLE_TENANTS:
            del self._idle[next(iter(self._idle))]


class Share:
    """The part of all admitted tokens that goes at least to who has waited longest in a class.

    The class saves up: from the token at which it began to wait, or at which it last had its part, a request of so many
    tokens is due once it is no more than the share of what was admitted since. Nothing is saved up while none waits.
    """

    def __init__(self, share: float) -> None:
        self._share = share  # above 0
        self._had_at = 0.0  # tokens admitted to all

    def begin(self, num_admitted: int) -> None:
        """The class begins to wait."""
        self._had_at = num_admitted

    def due(self, work_tokens: int) -> float:
        """How many tokens will have been admitted to all when so many are due."""
        return self._had_at + work_tokens / self._share

    def had(self, num_tokens: int, num_admitted: int) -> None:
        """Who had waited longest got so many tokens, after `num_admitted` were admitted to all."""
        self._had_at = min(self.due(num_tokens), num_admitted)
