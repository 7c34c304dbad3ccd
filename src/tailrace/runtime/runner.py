"""Carries out a step plan on a device: plan -> arrays -> one back-end call -> sampled tokens. Decides nothing."""

from tailrace.ops.api import Executable, Limits
from tailrace.runtime.batch import SequenceTable
from tailrace.runtime.sampler import SamplingTable, to_tokens
from tailrace.scheduler.plan import StepPlan, StepResult

__all__ = ["Runner"]


class Runner:
    def __init__(self, executable: Executable, limits: Limits, eos_ids: tuple[int, ...]) -> None:
        self._executable = executable
        self._sequences = SequenceTable(limits)
        self._sampling = SamplingTable(limits.max_sequences, eos_ids)

    def run(self, plan: StepPlan) -> StepResult:
        self._update(plan)
        if not plan.slices:
            return StepResult(plan.step_id, ())
        sequences = self._sequences
        slots = sequences.slots(plan.slices)
        step = sequences.step(plan.slices, slots)
        rows = [row for row, part in enumerate(plan.slices) if part.is_sampled]
        sampled = [plan.slices[row] for row in rows]
        sampled_slots = slots[rows]
        positions = (step.starts + step.row_starts[1:] - step.row_starts[:-1])[rows]
        inputs = self._sampling.inputs(sampled_slots, positions, sequences.tokens)
        drawn = self._executable.run(step, inputs)
        sequences.tokens[sampled_slots, positions] = drawn.token_ids
        return StepResult(plan.step_id, to_tokens([part.request_id for part in sampled], inputs.num_logprobs, drawn))

    def _update(self, plan: StepPlan) -> None:
        for request_id in plan.left:
            self._sampling.leave(self._sequences.leave(request_id))
        for entry in plan.entered:
            self._sampling.enter(self._sequences.enter(entry), entry)
        self._sequences.append_blocks(plan.slices)
        for copy in plan.copies:
            self._executable.copy_block(copy.source, copy.target, copy.num_tokens)
