"""The latest steps of the engine, as its console shows them."""

from collections import deque

import msgspec

from tailrace.records import StepRecord

__all__ = ["StepLine", "StepLog"]

_MAX_STEPS = 250


class StepLine(msgspec.Struct, array_like=True):
    """What one step computed: a token each of running sequences, and parts of prompts, by request."""

    step_id: int
    computed_s: float  # monotonic
    took_s: float  # on the device
    predicted_s: float | None
    num_decodes: int
    num_prompt_tokens: int
    prompts: tuple[tuple[str, int], ...]


class StepLog:
    """Written by the engine's thread; keeping a step costs it one append."""

    def __init__(self) -> None:
        self._records: deque[StepRecord] = deque(maxlen=_MAX_STEPS)
        self.record = self._records.append

    def lines(self) -> list[StepLine]:
        """Oldest first. From any thread."""
        return [_line(step) for step in list(self._records)]


def _line(step: StepRecord) -> StepLine:
    return StepLine(
        step.step_id,
        step.computed_s,
        step.computed_s - step.planned_s,
        step.predicted_s,
        step.num_tokens - step.num_prefill_tokens,
        step.num_prefill_tokens,
        step.prompts,
    )
