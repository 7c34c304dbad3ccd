"""A PID controller that moves a quantity in proportion to itself. Knows neither time nor what it moves."""

import math
from typing import NamedTuple

__all__ = ["Gains", "Lever", "Pid"]

_DERIVATIVE_KEPT = 0.5  # of the filtered derivative, from one sample to the next
_MANY_SAMPLES = 100.0  # whose powers do not overflow


class Gains(NamedTuple):
    """Proportional, integral and derivative gain; time is counted in samples."""

    kp: float
    ki: float
    kd: float

    def times(self, factor: float) -> "Gains":
        return Gains(factor * self.kp, factor * self.ki, factor * self.kd)


class Pid:
    """The parallel form with a first-order filter on the derivative; e[k] is the error of sample k:

        v[k] = kp e[k] + ki (e[0] + ... + e[k]) + kd d[k]
        d[k] = d[k-1] / 2 + (e[k] - e[k-1]) / 2    with e[-1] = d[-1] = 0

    The sum stands still while the output cannot act (conditional integration), and begins anew when the error changes
    its sign: what is left of one side would carry past the goal. See Astrom and Hagglund, Advanced PID Control (2006),
    sections 3.3 on filtering and 3.5 on windup.
    """

    def __init__(self, gains: Gains) -> None:
        self._gains = gains
        self.reset()

    def reset(self) -> None:
        self._sum = 0.0
        self._slope = 0.0
        self._last = 0.0

    def step(self, error: float, *, is_held: bool = False) -> float:
        """The output for one more sample; `is_held`: what it moves can go no further on the error's side."""
        last = self._last
        if error * last < 0.0:
            self._sum = 0.0
        if not is_held:
            self._sum += error
        self._slope = _DERIVATIVE_KEPT * self._slope + (1.0 - _DERIVATIVE_KEPT) * (error - last)
        self._last = error
        kp, ki, kd = self._gains
        return kp * error + ki * self._sum + kd * self._slope


class Lever:
    """A quantity in [low, high] that a PID's output multiplies: value[k+1] = value[k] exp(v[k]). It begins at `high`.

    Its logarithm is the integral of the output. So what follows it in proportion comes to its goal with any ki, and
    with the same loop gain wherever the quantity stands.
    """

    def __init__(self, gains: Gains, low: float, high: float) -> None:
        self.low = low
        self.high = high
        self.value = high
        self._pid = Pid(gains)

    def move(self, error: float) -> None:
        """Grow for a positive error, shrink for a negative one."""
        is_held = self.value >= self.high if error > 0.0 else self.value <= self.low
        self._set(self.value * math.exp(self._pid.step(error, is_held=is_held)))

    def rest(self) -> None:
        """Stay, and let the PID know that there is no error: its derivative would make good for the last move."""
        self._pid.step(0.0)

    def limit(self, value: float) -> None:
        """Come down to where what it moves really stands, before moving that any further."""
        self._set(min(self.value, value))

    def cut(self, factor: float) -> None:
        """Shrink at once; the PID forgets what was before."""
        self._pid.reset()
        self._set(self.value * factor)

    def relax(self, factor: float, num_samples: float) -> None:
        """Grow by a factor a sample, with nothing to say that it should not."""
        self._pid.reset()
        self._set(self.value * factor ** min(num_samples, _MANY_SAMPLES))

    def _set(self, value: float) -> None:
        self.value = min(max(value, self.low), self.high)
