"""Counts where the time of steps goes, op by op: a sink for the profiles of timed steps."""

from tailrace.records import StepProfile
from tailrace.telemetry.catalogs import ops as catalog
from tailrace.telemetry.series import LabelledNumber, Series

__all__ = ["OpMetrics"]

_BETWEEN = "between"
_STEPS = [("decode",), ("prompt",)]


class OpMetrics:
    """Shows of ops what was there; what took no time and moved nothing is in no profile."""

    def __init__(self) -> None:
        self._seconds = LabelledNumber(catalog.OP_SECONDS)
        self._bytes = LabelledNumber(catalog.OP_BYTES)
        self._operations = LabelledNumber(catalog.OP_OPERATIONS)
        self._steps = LabelledNumber(catalog.TIMED_STEPS, _STEPS)
        self._step_seconds = LabelledNumber(catalog.TIMED_STEP_SECONDS, _STEPS)
        self.series: tuple[Series, ...] = (
            self._seconds,
            self._bytes,
            self._operations,
            self._steps,
            self._step_seconds,
        )

    def record(self, profile: StepProfile) -> None:
        step = "prompt" if profile.has_prompts else "decode"
        self._steps.add(1, step)
        self._step_seconds.add(profile.compute_s, step)
        self._seconds.add(profile.between_s, _BETWEEN, step)
        for op in profile.ops:
            self._seconds.add(op.seconds, op.name, step)
            self._bytes.add(op.num_bytes, op.name, step)
            self._operations.add(op.num_ops, op.name, step)
