"""What became of a workload, on a pretended device or a real one: the raw material of figures."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tailrace.errors import RefusalReason
from tailrace.measure.simulation.arrivals import Arrival
from tailrace.types import FinishReason, TokenEvent

__all__ = ["Outcome", "Served"]


@dataclass(slots=True)
class Served:
    """What one arrival was sent."""

    arrival: Arrival
    token_s: list[float] = field(default_factory=list)  # when each token came
    has_ended: bool = False
    is_complete: bool = False
    refused_for: RefusalReason | None = None
    predicted_ttft_s: float | None = None  # what the engine expected at its arrival

    @property
    def ttft_s(self) -> float | None:
        return self.token_s[0] - self.arrival.at_s if self.token_s else None

    def refuse(self, reason: RefusalReason | None) -> None:
        self.refused_for = reason
        self.has_ended = True


@dataclass(slots=True)
class Outcome:
    """Times are seconds from the beginning of the workload; sums are over all steps."""

    served: dict[str, Served]
    num_steps: int = 0
    busy_s: float = 0.0
    num_tokens: int = 0  # computed, padding included
    num_padding_tokens: int = 0
    num_held_blocks_s: float = 0.0  # of KV memory, times the seconds they were held in steps
    num_blocks_total: int = 1
    num_preempted: int = 0
    step_errors: list[float] = field(default_factory=list)  # |predicted - taken| / taken, of steps with a prediction

    @classmethod
    def of(cls, arrivals: Sequence[Arrival]) -> "Outcome":
        """Before anything has happened."""
        return cls({arrival.request_id: Served(arrival) for arrival in arrivals})

    def take(self, events: Iterable[TokenEvent], now_s: float) -> None:
        """Note what was published at this time."""
        for event in events:
            served = self.served[event.request_id]
            if event.token_id is not None:
                served.token_s.append(now_s)
            if event.refusal is not None:
                served.refuse(event.refusal.reason)
            if event.finish_reason is not None:
                served.has_ended = True
                served.is_complete = event.finish_reason in (FinishReason.LENGTH, FinishReason.STOP)
