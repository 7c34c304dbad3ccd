"""Those of one service class that are ready to start."""

from math import inf

from tailrace.classes import ServiceClass
from tailrace.scheduler.fairness import Share, TenantTurns
from tailrace.scheduler.nearly_sorted import NearlySorted
from tailrace.scheduler.waiting import Age, WaitingRequest

__all__ = ["ClassLine"]


class ClassLine:
    """Keeps its requests by arrival and, for each tenant, by place."""

    def __init__(self, service_class: ServiceClass) -> None:
        self.by_age: NearlySorted[Age] = NearlySorted()
        self.oldest_s = inf  # when the oldest arrived
        self.due = inf  # how many tokens will have been admitted to all when the oldest must be next
        self._priority = service_class.priority
        self._share = Share(service_class.share)
        self._turns = TenantTurns()

    @property
    def oldest(self) -> WaitingRequest:
        return self.by_age.first[-1]

    @property
    def first(self) -> WaitingRequest:
        """The best placed of the tenant that has the turn."""
        return self._turns.first[-1]

    def share_ahead(self, tenant: str) -> float:
        """The part of what is ready here that may come before a request of this tenant that comes now."""
        return self._turns.share_ahead(tenant)

    def weight(self, now_s: float, longest_s: float) -> float:
        return self._priority * (1.0 + min((now_s - self.oldest_s) / longest_s, 1.0))

    def add(self, request: WaitingRequest, num_admitted: int) -> None:
        if not self.by_age:
            self._share.begin(num_admitted)
        self.by_age.add(request.age)
        self._turns.add(request.tenant, request.place)
        if request is self.oldest:
            self._look_at_oldest()

    def remove(self, request: WaitingRequest) -> None:
        was_oldest = request is self.oldest
        self.by_age.remove(request.age)
        self._turns.remove(request.tenant, request.place)
        if was_oldest:
            self._look_at_oldest()

    def start(self, request: WaitingRequest, num_tokens: int, num_admitted: int) -> None:
        """Remove one that is admitted, with so many tokens, after `num_admitted` of all."""
        if request is self.oldest:
            self._share.had(num_tokens, num_admitted)
        self._turns.charge(request.tenant, num_tokens)
        self.remove(request)

    def served(self, tenant: str, num_tokens: int) -> None:
        self._turns.charge(tenant, num_tokens)

    def _look_at_oldest(self) -> None:
        self.oldest_s = self.due = inf
        if self.by_age:
            self.oldest_s, _, oldest = self.by_age.first
            self.due = self._share.due(oldest.work_tokens)
