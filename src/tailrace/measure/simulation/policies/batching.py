"""How models were served before steps were planned: a batch is padded, computed to its longest answer, and replaced."""

from collections import deque
from dataclasses import dataclass
from itertools import islice

from tailrace.measure.simulation.seam import PADDING
from tailrace.records import RequestRecord
from tailrace.scheduler.plan import SequenceEntry, SequenceSlice, StepPlan, StepResult
from tailrace.types import FinishReason, Request, TokenEvent

__all__ = ["AdaptiveSize", "BatchStats", "Batcher", "FixedSize", "FullLength", "LongestLength"]


@dataclass(frozen=True, slots=True)
class FixedSize:
    """A whole batch, or what has come when the first has waited for `patience_s`."""

    size: int
    patience_s: float

    def take(self, num_waiting: int, waited_s: float) -> int:
        """How many of those that wait to begin with; 0: not yet."""
        is_due = num_waiting >= self.size or waited_s >= self.patience_s
        return min(num_waiting, self.size) if is_due else 0


@dataclass(frozen=True, slots=True)
class AdaptiveSize:
    """As many as wait, at once."""

    max_size: int

    def take(self, num_waiting: int, waited_s: float) -> int:
        return min(num_waiting, self.max_size)


@dataclass(frozen=True, slots=True)
class FullLength:
    """Prompts are padded to `num_tokens`, and to a multiple of it if one of the batch is longer."""

    num_tokens: int

    def length(self, longest: int) -> int:
        return -(-longest // self.num_tokens) * self.num_tokens


@dataclass(frozen=True, slots=True)
class LongestLength:
    """Prompts are padded to the longest of their batch."""

    def length(self, longest: int) -> int:
        return longest


@dataclass(frozen=True, slots=True)
class BatchStats:
    num_running: int
    num_waiting: int
    num_preempted_total: int
    num_blocks_used: int
    num_blocks_total: int
    predicted_s: None = None


@dataclass(slots=True)
class _Row:
    request: Request
    num_output: int = 0

    @property
    def is_done(self) -> bool:
        return self.num_output >= self.request.sampling.max_tokens


class Batcher:
    """A plan maker: one step for the prompts of a batch, one for each token until the longest answer ends.

    Rows that have ended go on as padding. Room is taken for padded prompts and the longest answer, of all rows. A batch
    that has no room begins with fewer rows.
    """

    def __init__(
        self, size: FixedSize | AdaptiveSize, length: FullLength | LongestLength, num_blocks: int, block_tokens: int
    ) -> None:
        self._size = size
        self._length = length
        self._num_blocks = num_blocks
        self._block_tokens = block_tokens
        self._waiting: deque[Request] = deque()
        self._rows: list[_Row] = []
        self._length_tokens = 0  # of each row so far, padding included
        self._num_blocks_used = 0
        self._step_id = 0

    @property
    def has_work(self) -> bool:
        return bool(self._waiting or self._rows)

    @property
    def stats(self) -> BatchStats:
        return BatchStats(len(self._rows), len(self._waiting), 0, self._num_blocks_used, self._num_blocks)

    def add(self, request: Request) -> None:
        self._waiting.append(request)

    def expire(self, now_s: float) -> list[TokenEvent]:
        return []

    def plan(self, now_s: float) -> StepPlan | None:
        if self._rows:
            return self._plan(self._decode_slices())
        if not self._waiting:
            return None
        count = self._size.take(len(self._waiting), now_s - self._waiting[0].arrival_s)
        self._begin(count)
        return self._plan(self._prefill_slices(), self._rows) if self._rows else None

    def commit(self, result: StepResult, now_s: float) -> list[TokenEvent]:
        events = []
        for row in self._rows:
            if not row.is_done:
                row.num_output += 1
                reason = FinishReason.LENGTH if row.is_done else None
                events.append(TokenEvent(row.request.request_id, 7, finish_reason=reason))
        self._length_tokens += 1
        if all(row.is_done for row in self._rows):
            self._rows, self._num_blocks_used = [], 0
        return events

    def drain_records(self) -> list[RequestRecord]:
        return []

    def _begin(self, count: int) -> None:
        """Start a batch with the first so many of those that wait, or fewer, if there is no room."""
        while count and self._blocks_for(requests := list(islice(self._waiting, count))) > self._num_blocks:
            count -= 1
        if not count:
            return
        self._num_blocks_used = self._blocks_for(requests)
        self._length_tokens = self._padded_length(requests)
        self._rows = [_Row(self._waiting.popleft()) for _ in requests]

    def _padded_length(self, requests: list[Request]) -> int:
        return self._length.length(max(request.num_prompt_tokens for request in requests))

    def _blocks_for(self, requests: list[Request]) -> int:
        num_tokens = self._padded_length(requests) + max(request.sampling.max_tokens for request in requests)
        return len(requests) * -(-num_tokens // self._block_tokens)

    def _prefill_slices(self) -> list[SequenceSlice]:
        slices = []
        for row in self._rows:
            request_id, num_tokens = row.request.request_id, row.request.num_prompt_tokens
            slices.append(SequenceSlice(request_id, 0, num_tokens, True))
            if num_tokens < self._length_tokens:
                slices.append(SequenceSlice(PADDING, num_tokens, self._length_tokens - num_tokens, False))
        return slices

    def _decode_slices(self) -> list[SequenceSlice]:
        position = self._length_tokens - 1
        return [
            SequenceSlice(PADDING if row.is_done else row.request.request_id, position, 1, True) for row in self._rows
        ]

    def _plan(self, slices: list[SequenceSlice], entered: list[_Row] | None = None) -> StepPlan:
        self._step_id += 1
        entries = tuple(
            SequenceEntry(row.request.request_id, (), row.request.num_prompt_tokens, row.request.sampling)
            for row in entered or ()
        )
        return StepPlan(self._step_id, (), entries, (), tuple(slices))
