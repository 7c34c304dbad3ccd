"""What one step does, and what came out of it: the seam between the pure and the device column.

A plan is ids and counts only: it can be printed, logged, replayed and compared in a test. The runtime keeps the block
table of each sequence; a plan carries just what is new.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tailrace.types import OpTime, SamplingParams, TokenLogprob

__all__ = [
    "BlockCopy",
    "BlockMove",
    "SampledToken",
    "SequenceEntry",
    "SequenceSlice",
    "StepPlan",
    "StepResult",
    "StepSize",
    "positions_met",
]


@dataclass(frozen=True, slots=True)
class SequenceEntry:
    """A sequence that enters the running set with this step (new, or back after a preemption)."""

    request_id: str
    token_ids: Sequence[int]  # prompt and output so far; all tokens whose ids are known
    num_prompt_tokens: int
    sampling: SamplingParams


class SequenceSlice(NamedTuple):
    """The part of one sequence in a step: positions [start, start + num_tokens) are computed.

    When `is_sampled`, the last row goes through the head and one token is drawn behind it; its row then is the newest
    known token. Before the step, `num_released` blocks leave the sequence's block table at its beginning, where no row
    sees them any more (of a sequence that enters, they were never there), and `new_blocks` are appended.

    A tuple, like SampledToken: there is one for each sequence in each step.
    """

    request_id: str
    start: int
    num_tokens: int
    is_sampled: bool
    new_blocks: tuple[int, ...] = ()
    num_released: int = 0


@dataclass(frozen=True, slots=True)
class BlockCopy:
    """Copy the first `num_tokens` rows of block `source` to block `target` before the step computes."""

    source: int
    target: int
    num_tokens: int


class BlockMove(NamedTuple):
    """Copy block `source` to block `target` as a whole, and read `target` in all block tables from then on."""

    source: int
    target: int


class StepSize(NamedTuple):
    """What the time of a step depends on."""

    num_tokens: int  # rows computed
    num_sampled: int  # of these, rows put through the head
    num_read_tokens: int  # positions met, summed over the rows
    num_alone_read_tokens: int = 0  # of these, met by a row alone in its sequence, which shares the reading with none


def positions_met(start: int, count: int) -> int:
    """By `count` rows of a sequence from position `start` on, each of which meets itself and all before it."""
    return count * start + count * (count + 1) // 2


@dataclass(frozen=True, slots=True)
class StepPlan:
    """`left` are sequences that leave the running set before this step: finished, aborted or preempted.

    `moves` are made last, just before the step computes: what comes before them names blocks by their old places. No
    block is in two moves of a step. A plan may have moves and no slices.

    The runs of blocks in `committed` need memory before anything is moved or copied to them; those in `released` give
    theirs back once moves and copies have been made, and before the step computes. No block is in both.
    """

    step_id: int
    left: tuple[str, ...]
    entered: tuple[SequenceEntry, ...]
    copies: tuple[BlockCopy, ...]
    slices: tuple[SequenceSlice, ...]
    moves: tuple[BlockMove, ...] = ()
    committed: tuple[range, ...] = ()
    released: tuple[range, ...] = ()

    @property
    def size(self) -> StepSize:
        num_tokens, num_sampled, num_shared, num_alone = 0, 0, 0, 0
        for _, start, count, is_sampled, *_ in self.slices:
            num_tokens += count
            num_sampled += is_sampled
            if count == 1:
                num_alone += start + 1
            else:
                num_shared += positions_met(start, count)
        return StepSize(num_tokens, num_sampled, num_shared + num_alone, num_alone)

    @property
    def num_tokens(self) -> int:
        return sum(part.num_tokens for part in self.slices)


class SampledToken(NamedTuple):
    """One in each sampled row of each step: a tuple, which is made several times faster than a frozen dataclass."""

    request_id: str
    token_id: int
    logprob: float | None = None
    top_logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class StepResult:
    """One sampled token for each slice with `is_sampled`, in the order of the plan."""

    step_id: int
    sampled: tuple[SampledToken, ...]
    has_waited: bool = False  # for weights that were still being read: how long it took tells nothing
    ops: tuple[OpTime, ...] = ()  # where its time went, of the few steps whose stages are timed
