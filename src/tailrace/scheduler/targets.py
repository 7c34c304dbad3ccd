"""The service classes with targets that this machine can meet, as far as it is known."""

from tailrace.classes import ServiceClasses
from tailrace.scheduler.budget import scale_of_targets
from tailrace.scheduler.steptime import StepTimeModel

__all__ = ["Targets"]

_PERIOD_S = 1.0
_SMOOTHING = 0.1  # in a period
_STEP = 0.02  # by less than which nothing changes


class Targets:
    """`classes` have been scaled by `scale` after a few first steps, which others on the machine may have disturbed.

    So the scale follows the step-time model between 1 and what it was at first, which has been announced; a machine
    that becomes slower than that makes no promise easier to keep. `most_rows`: streams that a step can have.
    """

    def __init__(self, classes: ServiceClasses, scale: float, step_times: StepTimeModel, most_rows: int) -> None:
        self.classes = classes
        self.scale = scale
        self._first_classes = classes
        self._first_scale = scale
        self._tightest_itl_s = classes.tightest_itl_s / scale  # as configured
        self._step_times = step_times
        self._most_rows = most_rows
        self._smoothed = scale
        self._due_s = 0.0

    def follow(self, now_s: float) -> None:
        """Look at what the model says now, once in a while."""
        if self._first_scale <= 1.0 or now_s < self._due_s:
            return
        self._due_s = now_s + _PERIOD_S
        scale = scale_of_targets(self._step_times, self._tightest_itl_s, self._most_rows)
        self._smoothed += _SMOOTHING * (min(scale, self._first_scale) - self._smoothed)
        if abs(self._smoothed / self.scale - 1.0) >= _STEP:
            self.scale = self._smoothed
            self.classes = self._first_classes.scaled(self.scale / self._first_scale)
