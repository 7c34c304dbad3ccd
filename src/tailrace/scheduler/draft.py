"""A step being planned: slices taken from a token budget until it is used up."""

from collections.abc import Sequence

from tailrace.kvcache.chunks import NO_CHANGE, MemoryChange
from tailrace.scheduler.live import LiveRequest
from tailrace.scheduler.plan import (
    BlockCopy,
    BlockMove,
    SequenceEntry,
    SequenceSlice,
    StepPlan,
    StepSize,
    positions_met,
)

__all__ = ["StepDraft"]


class StepDraft:
    def __init__(self, budget_tokens: int) -> None:
        self.budget_left = budget_tokens
        self.lives: list[LiveRequest] = []
        self.slices: list[SequenceSlice] = []  # of each of these, its part
        self.num_tokens = 0
        self.num_sampled = 0
        self.num_read_tokens = 0
        self.num_alone_read_tokens = 0
        self.is_quiet = True  # no part of a prompt so far
        self._entered: list[SequenceEntry] = []

    def enter(self, live: LiveRequest) -> None:
        """A sequence joins; its first slice must follow in the same step."""
        request = live.request
        entry = SequenceEntry(request.request_id, live.token_ids[:], request.num_prompt_tokens, request.sampling)
        self._entered.append(entry)

    def decode(self, lives: Sequence[LiveRequest]) -> None:
        """Compute the newest token of each and sample behind it."""
        count = len(lives)
        num_read = sum([live.num_computed for live in lives]) + count
        self.num_read_tokens += num_read
        self.num_alone_read_tokens += num_read
        self.budget_left -= count
        self.num_tokens += count
        self.num_sampled += count
        self.lives += lives
        self.slices += [
            SequenceSlice(live.request_id, live.num_computed, 1, True, live.new_blocks, live.num_released)
            for live in lives
        ]
        for live in lives:
            live.new_blocks, live.num_released = (), 0

    @property
    def size(self) -> StepSize:
        return StepSize(self.num_tokens, self.num_sampled, self.num_read_tokens, self.num_alone_read_tokens)

    def fill(self, live: LiveRequest, count: int) -> None:
        """Compute the next `count` tokens, and sample behind them if they close the gap."""
        self.is_quiet = False
        num_read = positions_met(live.num_computed, count)
        self.num_read_tokens += num_read
        if count == 1:
            self.num_alone_read_tokens += num_read
        is_sampled = count == live.gap
        self.budget_left -= count
        self.num_tokens += count
        self.num_sampled += is_sampled
        self.lives.append(live)
        self.slices.append(
            SequenceSlice(live.request_id, live.num_computed, count, is_sampled, live.new_blocks, live.num_released)
        )
        live.new_blocks, live.num_released = (), 0

    def plan(
        self,
        step_id: int,
        left: tuple[str, ...],
        copies: tuple[BlockCopy, ...],
        moves: tuple[BlockMove, ...] = (),
        memory: MemoryChange = NO_CHANGE,
    ) -> StepPlan:
        return StepPlan(
            step_id,
            left,
            tuple(self._entered),
            copies,
            tuple(self.slices),
            moves,
            committed=memory.committed,
            released=memory.released,
        )
