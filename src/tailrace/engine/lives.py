"""How requests come to their first tokens, for whoever waits for them. Follows nobody for longer."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tailrace.scheduler.plan import SequenceEntry, StepPlan
from tailrace.types import Beginning, PromptChunk, Request, TokenEvent

__all__ = ["MAX_CHUNKS", "Beginnings"]

MAX_CHUNKS = 64  # of a request; what is computed after so many, the last of them stands for


@dataclass(slots=True)
class _Started:
    """A request that some step has planned, and that has no token yet."""

    started_s: float
    fetch_s: float
    num_preemptions: int = 0
    chunks: list[PromptChunk] = field(default_factory=list)

    def add(self, chunk: PromptChunk) -> None:
        if len(self.chunks) == MAX_CHUNKS:
            last = self.chunks.pop()
            chunk = PromptChunk(last.planned_s, chunk.computed_s, last.num_tokens + chunk.num_tokens)
        self.chunks.append(chunk)


class Beginnings:
    """Only the step loop calls it. `fetch_s` tells for how long a request has waited for the levels below."""

    def __init__(self, fetch_s: Callable[[str], float]) -> None:
        self._fetch_s = fetch_s
        self._taken_s: dict[str, float] = {}  # of all that have no token yet
        self._started: dict[str, _Started] = {}  # of these, those that were planned

    def __len__(self) -> int:
        """How many are followed."""
        return len(self._taken_s)

    def taken(self, requests: Iterable[Request], now_s: float) -> None:
        """These came out of the inbox. `ended` must follow for each that ends without a token."""
        for request in requests:
            self._taken_s[request.request_id] = now_s

    def planned(self, entered: Iterable[SequenceEntry], planned_s: float) -> None:
        """These enter the running set, perhaps not for the first time."""
        for entry in entered:
            request_id = entry.request_id
            if (started := self._started.get(request_id)) is not None:
                started.num_preemptions += 1
            elif request_id in self._taken_s:
                self._started[request_id] = _Started(planned_s, self._fetch_s(request_id))

    def computed(self, plan: StepPlan, planned_s: float, computed_s: float) -> None:
        """A step is over. Costs nothing when it has computed no prompt that is followed."""
        if self._started:
            for part in plan.slices:
                if (started := self._started.get(part.request_id)) is not None:
                    started.add(PromptChunk(planned_s, computed_s, part.num_tokens))

    def told(self, events: Sequence[TokenEvent], computed_s: float) -> Sequence[TokenEvent]:
        """What came of the step. First tokens say how they came about, and are followed no more."""
        if not self._started:
            return events
        return [
            event._replace(beginning=self._end(event.request_id, computed_s))
            if event.token_id is not None and event.request_id in self._started
            else event
            for event in events
        ]

    def ended(self, request_id: str) -> None:
        """It is over; repeated calls are harmless."""
        self._taken_s.pop(request_id, None)
        self._started.pop(request_id, None)

    def _end(self, request_id: str, computed_s: float) -> Beginning:
        taken_s, started = self._taken_s.pop(request_id), self._started.pop(request_id)
        return Beginning(
            taken_s, started.started_s, computed_s, started.fetch_s, tuple(started.chunks), started.num_preemptions
        )
