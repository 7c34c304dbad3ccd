"""The running sequences as arrays, kept and patched from step to step: tokens, block tables, and where each one is."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tailrace.ops.api import Limits, StepInputs
from tailrace.scheduler.plan import BlockMove, SequenceEntry, SequenceSlice

__all__ = ["SequenceTable"]


class SequenceTable:
    """One row ("slot") for each running sequence.

    tokens        [max_sequences, max_model_tokens + 1]      ids known so far, by position
    block_tables  [max_sequences, max_blocks_per_sequence]   block of each run of block_tokens positions

    Blocks that a window has left behind may belong to others by now. Their places hold the first block that is still
    the sequence's own: whatever looks there, to mask it or to find what sequences share, finds nothing of another's.
    """

    def __init__(self, limits: Limits) -> None:
        # Reserved, not committed: a page of these costs memory only once a sequence grows into it. One column more than
        # positions, for the token that is drawn behind a full context.
        self.tokens = np.empty((limits.max_sequences, limits.max_model_tokens + 1), np.int32)
        self.block_tables = np.zeros((limits.max_sequences, limits.max_blocks_per_sequence), np.int32)
        self._first_blocks = [0] * limits.max_sequences  # of each row, the first place that is not left behind
        self._num_blocks = [0] * limits.max_sequences  # of each row, the places in use, those left behind included
        self._slots: dict[str, int] = {}
        self._free = list(reversed(range(limits.max_sequences)))

    def enter(self, entry: SequenceEntry) -> int:
        slot = self._free.pop()
        self._slots[entry.request_id] = slot
        self._first_blocks[slot] = self._num_blocks[slot] = 0
        self.tokens[slot, : len(entry.token_ids)] = entry.token_ids
        return slot

    def leave(self, request_id: str) -> int:
        slot = self._slots.pop(request_id)
        self._free.append(slot)
        return slot

    def correct(self, request_id: str, position: int, token_id: int) -> None:
        self.tokens[self._slots[request_id], position] = token_id

    def move_blocks(self, slices: Iterable[SequenceSlice]) -> None:
        """Append new blocks and leave behind those that were released."""
        for part in slices:
            if part.new_blocks or part.num_released:
                self._move_blocks(self._slots[part.request_id], part)

    def relocate(self, moves: Sequence[BlockMove]) -> None:
        """Read the target of each move where its source was read. Patches the tables in place: steps keep them."""
        sources, targets = np.array(sorted(moves), np.int32).T
        for slot in self._slots.values():
            row = self.block_tables[slot, : self._num_blocks[slot]]
            nearest = np.searchsorted(sources[:-1], row)
            np.copyto(row, targets[nearest], where=sources[nearest] == row)

    def slots(self, slices: Sequence[SequenceSlice]) -> NDArray[np.int32]:
        return np.array([self._slots[part.request_id] for part in slices], np.int32)

    def step(self, slices: Sequence[SequenceSlice], slots: NDArray[np.int32]) -> StepInputs:
        """The arrays of one step. Rows lie in the order of the slices."""
        starts = np.array([part.start for part in slices], np.int32)
        counts = np.array([part.num_tokens for part in slices], np.int32)
        row_starts = np.zeros(len(slices) + 1, np.int32)
        np.cumsum(counts, out=row_starts[1:])
        if row_starts[-1] == len(slices):  # one row each: steady decode
            token_ids = self.tokens[slots, starts]
        else:
            token_ids = np.concatenate(
                [
                    self.tokens[slot, part.start : part.start + part.num_tokens]
                    for slot, part in zip(slots, slices, strict=True)
                ]
            )
        is_sampled = np.array([part.is_sampled for part in slices], np.bool_)
        return StepInputs(
            token_ids=token_ids,
            row_starts=row_starts,
            starts=starts,
            slots=slots,
            block_tables=self.block_tables,
            sample_rows=row_starts[1:][is_sampled] - 1,
        )

    def _move_blocks(self, slot: int, part: SequenceSlice) -> None:
        table = self.block_tables[slot]
        first = self._first_blocks[slot] + part.num_released
        begin = max(self._num_blocks[slot], first)
        end = begin + len(part.new_blocks)
        table[begin:end] = part.new_blocks
        if part.num_released:
            table[:first] = table[first]
        self._first_blocks[slot], self._num_blocks[slot] = first, end
