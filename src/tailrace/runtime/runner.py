"""Carries out a step plan on a device: plan -> arrays -> one back-end call -> sampled tokens. Decides nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tailrace.ops.api import Executable, Limits, SampleOutputs, SamplingInputs, StepInputs
from tailrace.runtime.batch import SequenceTable
from tailrace.runtime.sampler import SamplingTable, to_tokens
from tailrace.scheduler.plan import StepPlan, StepResult
from tailrace.types import OpTime

__all__ = ["TIMED_EVERY", "Runner"]

TIMED_EVERY = 64  # steps: timing one takes longer by a few hundredths


class Runner:
    """`mask_rows` are the rows of the executable's masks with which requests draw; one that is not there has none."""

    def __init__(
        self,
        executable: Executable,
        limits: Limits,
        eos_ids: tuple[int, ...],
        mask_rows: Mapping[str, int] | None = None,
    ) -> None:
        self._executable = executable
        self._block_tokens = limits.block_tokens
        self._step_blocks = -(-limits.max_tokens // limits.block_tokens)
        self._sequences = SequenceTable(limits)
        self._sampling = SamplingTable(limits.max_sequences, eos_ids)
        self._mask_rows = {} if mask_rows is None else mask_rows
        self._last: _Batch | None = None
        self._num_runs = 0

    def run(self, plan: StepPlan) -> StepResult:
        self._update(plan)
        if not plan.slices:
            return StepResult(plan.step_id, ())
        last = self._last
        batch = last if last is not None and last.is_repeated_by(plan) else self._assemble(plan)
        was_whole = self._executable.is_whole
        drawn, ops = self._compute(batch)
        self._sequences.tokens[batch.slots, batch.sampling.position] = drawn.token_ids
        tokens = to_tokens(batch.request_ids, batch.sampling.num_logprobs if batch.has_logprobs else None, drawn)
        if batch.is_decode:
            batch.advance(drawn.token_ids)
        self._last = batch
        return StepResult(plan.step_id, tokens, has_waited=not was_whole, ops=ops)

    def _compute(self, batch: "_Batch") -> tuple[SampleOutputs, tuple[OpTime, ...]]:
        """What was drawn, and in one step of many where the time went."""
        self._num_runs += 1
        if self._num_runs % TIMED_EVERY:
            return self._executable.run(batch.step, batch.sampling), ()
        return self._executable.run_timed(batch.step, batch.sampling)

    def correct(self, request_id: str, position: int, token_id: int) -> None:
        """Before the next step: the token at this position is another one than was drawn."""
        self._sequences.correct(request_id, position, token_id)
        self._last = None

    def _assemble(self, plan: StepPlan) -> "_Batch":
        slots = self._sequences.slots(plan.slices)
        step = self._sequences.step(plan.slices, slots)
        rows = [row for row, part in enumerate(plan.slices) if part.is_sampled]
        positions = (step.starts + step.row_starts[1:] - step.row_starts[:-1])[rows]
        request_ids = [plan.slices[row].request_id for row in rows]
        sampling = self._sampling.inputs(slots[rows], positions, self._sequences.tokens)
        return _Batch(
            request_ids=request_ids,
            slots=slots[rows],
            step=step,
            sampling=replace(sampling, mask_rows=self._masks_of(request_ids)) if self._mask_rows else sampling,
            is_decode=len(step.token_ids) == len(rows) and not self._sampling.has_extras(slots[rows]),
            has_logprobs=bool(sampling.num_logprobs.max(initial=-1) >= 0),
        )

    def _masks_of(self, request_ids: Sequence[str]) -> NDArray[np.int32]:
        return np.array([self._mask_rows.get(request_id, -1) for request_id in request_ids], np.int32)

    def _update(self, plan: StepPlan) -> None:
        if plan.committed:
            self._commit(plan.committed)
        for request_id in plan.left:
            self._sampling.leave(self._sequences.leave(request_id))
        for entry in plan.entered:
            self._sampling.enter(self._sequences.enter(entry), entry)
        self._sequences.move_blocks(plan.slices)
        for copy in plan.copies:
            self._executable.copy_block(copy.source, copy.target, copy.num_tokens)
        if plan.moves:
            for move in plan.moves:
                self._executable.copy_block(move.source, move.target, self._block_tokens)
            self._sequences.relocate(plan.moves)
        for blocks in plan.released:
            self._executable.release(blocks)

    def _commit(self, runs: Sequence[range]) -> None:
        """Commit blocks, and get memory at once for as many as one step can fill: the rest would hold this one up."""
        num_left = self._step_blocks
        for blocks in runs:
            self._executable.commit(blocks)
            if num_left > 0:
                self._executable.populate(blocks[:num_left])
                num_left -= len(blocks)


@dataclass(frozen=True, slots=True)
class _Batch:
    """The arrays of a step. Those of steady decode are kept, and moved on by one token."""

    request_ids: list[str]  # of the sampled rows, like `slots`
    slots: NDArray[np.int32]
    step: StepInputs
    sampling: SamplingInputs
    is_decode: bool  # one sampled row for each sequence, whose settings do not change from token to token
    has_logprobs: bool

    def is_repeated_by(self, plan: StepPlan) -> bool:
        """Whether `plan` is the same step again, one token on."""
        return (
            self.is_decode
            and not plan.entered
            and not plan.left
            and len(plan.slices) == len(self.request_ids)
            and all(
                part.request_id == request_id and part.is_sampled and part.num_tokens == 1
                for part, request_id in zip(plan.slices, self.request_ids, strict=True)
            )
        )

    def advance(self, token_ids: NDArray[np.int32]) -> None:
        """Feed the tokens that were drawn."""
        self.step.token_ids[:] = token_ids
        np.add(self.step.starts, 1, out=self.step.starts)
        np.add(self.sampling.position, 1, out=self.sampling.position)
