"""A request while the scheduler knows it: tokens known against tokens computed."""

from dataclasses import dataclass

from tailrace.kvcache.block import BlockTable
from tailrace.records import RequestRecord
from tailrace.scheduler.lifecycle import RequestState, moved
from tailrace.types import FinishReason, Request

__all__ = ["LiveRequest"]


@dataclass(slots=True, eq=False)
class LiveRequest:
    """`token_ids` are all known tokens; while it runs, the first `num_computed` have keys and values in its blocks.

    |<------ prompt ------>|<--- output --->|
    |<------- computed ------->|<--- gap -->|      a step closes part of the gap; closing it samples one token
    |<------------ num_positions ------------->|   room, up to the end of the last block
    """

    request_id: str
    request: Request
    arrival_rank: int  # lower came earlier
    table: BlockTable
    token_ids: list[int]
    max_length: int  # at most so many tokens become known
    max_blocks: int  # what it needs to hold at once, at most
    stop_ids: frozenset[int]  # those that end it; before min_tokens they do not
    num_computed: int = 0
    num_positions: int = 0
    new_blocks: tuple[int, ...] = ()  # held, and not yet told to the runtime
    num_released: int = 0  # given back at the beginning, and not yet told
    state: RequestState = RequestState.WAITING
    num_preemptions: int = 0
    started_s: float | None = None
    first_token_s: float | None = None
    num_cached_tokens: int = 0  # of the prompt, at the first admission

    @property
    def gap(self) -> int:
        return len(self.token_ids) - self.num_computed

    @property
    def num_output_tokens(self) -> int:
        return len(self.token_ids) - self.request.num_prompt_tokens

    @property
    def may_need_blocks(self) -> bool:
        """Whether it holds less than its longest possible output needs at once."""
        return len(self.table.blocks) < self.max_blocks

    def move(self, to: RequestState) -> None:
        self.state = moved(self.state, to)

    def finish_reason(self) -> FinishReason | None:
        """Whether the newest token ends the request."""
        if self.token_ids[-1] in self.stop_ids and self.num_output_tokens > self.request.sampling.min_tokens:
            return FinishReason.STOP
        return FinishReason.LENGTH if len(self.token_ids) >= self.max_length else None

    def record(self, finished_s: float, reason: FinishReason) -> RequestRecord:
        return RequestRecord(
            request_id=self.request_id,
            arrived_s=self.request.arrival_s,
            started_s=self.started_s,
            first_token_s=self.first_token_s,
            finished_s=max(finished_s, self.request.arrival_s),
            num_prompt_tokens=self.request.num_prompt_tokens,
            num_cached_tokens=self.num_cached_tokens,
            num_output_tokens=self.num_output_tokens,
            num_preemptions=self.num_preemptions,
            finish_reason=reason,
        )
