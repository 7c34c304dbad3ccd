"""A request while it waits: what ranks it, as of when it was put into the queue."""

from dataclasses import dataclass

from tailrace.scheduler.live import LiveRequest

__all__ = ["Age", "Expiry", "Place", "WaitingRequest"]


@dataclass(slots=True, eq=False)
class WaitingRequest:
    """While it has a place nothing of this changes: it is found by them."""

    live: LiveRequest
    cohort_s: float  # since when those have come that are as old
    may_expire: bool  # it never started so far
    work_tokens: int = 0  # to be computed
    slack_s: float = 0.0  # the latest time to start, for its first token to be there when it should

    def look(self, seconds_per_token: float) -> None:
        """Take note of how much work it is now."""
        self.work_tokens = self.live.work_tokens
        self.slack_s = self.live.deadline_s - self.work_tokens * seconds_per_token

    @property
    def tenant(self) -> str:
        return self.live.request.tenant

    @property
    def age(self) -> "Age":
        """Orders by arrival. Ranks differ, so that no two requests are ever compared."""
        return self.live.request.arrival_s, self.live.arrival_rank, self

    @property
    def expiry(self) -> "Expiry":
        return self.live.expires_s, self.live.arrival_rank, self

    @property
    def place(self) -> "Place":
        """Orders those of one tenant in one class: by cohort, then by slack, then the least work, then by arrival."""
        return self.cohort_s, self.slack_s, self.work_tokens, self.live.arrival_rank, self


Age = tuple[float, int, WaitingRequest]
Expiry = tuple[float, int, WaitingRequest]
Place = tuple[float, float, int, int, WaitingRequest]
