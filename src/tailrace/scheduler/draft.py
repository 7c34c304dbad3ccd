"""A step being planned: slices taken from a token budget until it is used up."""

from tailrace.scheduler.live import LiveRequest
from tailrace.scheduler.plan import SequenceEntry, SequenceSlice, StepPlan

__all__ = ["StepDraft"]


class StepDraft:
    def __init__(self, budget_tokens: int) -> None:
        self.budget_left = budget_tokens
        self.parts: list[tuple[LiveRequest, SequenceSlice]] = []
        self._entered: list[SequenceEntry] = []

    def enter(self, live: LiveRequest) -> None:
        """A sequence joins; its first slice must follow in the same step."""
        request = live.request
        entry = SequenceEntry(request.request_id, tuple(live.token_ids), request.num_prompt_tokens, request.sampling)
        self._entered.append(entry)

    def decode(self, live: LiveRequest) -> None:
        """Compute the newest token and sample behind it."""
        self._add(live, 1, is_sampled=True)

    def share_of(self, live: LiveRequest) -> int:
        """How much of a gap to close in this step, of what the budget allows.

        A gap that takes several steps is cut evenly: no more steps, and a lower peak for the streams beside it.
        """
        num_steps = -(-live.gap // self.budget_left)
        return -(-live.gap // num_steps)

    def fill(self, live: LiveRequest, count: int) -> None:
        """Compute the next `count` tokens, and sample behind them if they close the gap."""
        self._add(live, count, is_sampled=count == live.gap)

    def _add(self, live: LiveRequest, count: int, *, is_sampled: bool) -> None:
        self.budget_left -= count
        part = SequenceSlice(live.request_id, live.num_computed, count, is_sampled, live.new_blocks, live.num_released)
        live.new_blocks, live.num_released = (), 0
        self.parts.append((live, part))

    def plan(self, step_id: int, left: tuple[str, ...]) -> StepPlan:
        return StepPlan(step_id, left, tuple(self._entered), (), tuple([part for _, part in self.parts]))
