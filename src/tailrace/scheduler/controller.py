"""Feedback on top of the step-time model: how many may run, and how long a step may take, after what the gaps show.

Knows nothing of steps or requests: it is told the gaps between tokens and how much KV memory is free, and moves three
levers. What the model foresees needs no control; this corrects what it misses.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tailrace.errors import SetupError
from tailrace.scheduler.gaps import Gap, GapWindow, upper_quantile
from tailrace.scheduler.pid import Gains, Lever

__all__ = ["Control", "Controller", "ControllerConfig"]

MIN_BATCH = 8
_QUANTILE = 0.99
_WINDOW_SAMPLES = 10
_MAX_STEPS = 256  # of the window: enough for P99, and cheap to sort
_MIN_STEPS = 2  # that an action is judged by
_GROWTH = 0.25  # of an error below target counts: gaps may answer by far more than in proportion
_LEAST_RATIO = 0.1  # less is no better
_MAX_COMING = 2.0  # times those that run; whoever is below half of the target may double them unforeseen
_RELAXING = 1.5  # times in a sample, without load
_HALF = 0.5
_NEVER = -1
_MEMORY_GAIN = 0.04  # of that for gaps: gaps follow the batch in a step, memory in the time of a stream


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """The gains count time in samples of `period_s`.

    With less than `min_free_share` of the KV blocks free the batch is halved, at `free_share_goal` it may not grow.
    With P99 of the gaps beyond `fast_ratio` times the target, levers move all the way at once.
    """

    kp: float = 0.8
    ki: float = 0.02
    kd: float = 0.3
    period_s: float = 0.2
    min_batch: int = MIN_BATCH
    max_batch: int = 64
    min_pace: float = 0.25
    min_free_share: float = 0.15
    free_share_goal: float = 0.2
    fast_ratio: float = 1.8

    def __post_init__(self) -> None:
        for name in ("kp", "ki", "kd"):
            self._check(name, "at least 0", lambda gain: gain >= 0.0)
        self._check("period_s", "above 0", lambda period_s: period_s > 0.0)
        self._check("min_batch", f"from 1 to max_batch, {self.max_batch}", lambda least: 1 <= least <= self.max_batch)
        self._check("min_pace", "above 0 and at most 1", lambda pace: 0.0 < pace <= 1.0)
        self._check("free_share_goal", "above 0 and below 1", lambda goal: 0.0 < goal < 1.0)
        goal = self.free_share_goal
        self._check("min_free_share", f"from 0 to free_share_goal, {goal}", lambda share: 0.0 <= share <= goal)
        self._check("fast_ratio", "above 1", lambda ratio: ratio > 1.0)

    def _check(self, name: str, wanted: str, is_good: Callable[[float], bool]) -> None:
        value = getattr(self, name)
        if not math.isfinite(value) or not is_good(value):
            raise SetupError(f"the controller's {name} must be {wanted}, not {value}")

    @classmethod
    def up_to(cls, max_running: int) -> "ControllerConfig":
        """The defaults for a server of so many places."""
        return cls(min_batch=min(MIN_BATCH, max_running), max_batch=max_running)


class Control(NamedTuple):
    """What to keep to until the next sample.

    `pace` is in [min_pace, 1] and scales the time of a step up to which prompts may fill it.
    """

    max_running: int
    pace: float


class Controller:
    """Levers, each with a PID, sampled each `period_s`; P99 is the quantile of gap over target:

        pace    error -ln P99 of the gaps of steps that a lower pace would have made shorter
        batch   error -ln P99 of what all gaps would have been at the least pace; of the gaps, while that is the pace
        room    error (free - goal) / goal of the share of KV memory that is free, with 0.04 of the gains

        value[k+1] = value[k] exp(kp e[k] + ki sum e + kd d[k]), as `scheduler/pid.py` has it

    How many may run is the lesser of batch and room. In logarithms, a gap that is off by a factor wants its lever moved
    by that factor or somewhat more, on any machine.

    * P99 above target is told by the gaps since the lever was last lowered, so that nothing is done twice before it
      could show; P99 below target by those of two seconds, so that nothing grows into what has just been too much.
      Between the two a lever rests. P99 beyond `fast_ratio` moves it by the whole factor, in place of its PID; growth
      counts a quarter of the error, as gaps may answer by far more than in proportion.
    * A batch shrinks as streams end and grows as prompts are computed. The factor between the bound and those that run
      is under way and counts as done: a Smith predictor, whose model is a gap in proportion to the batch.
    * Where fewer run than the bound allows, it first comes down to them, since a cut that binds nobody is none: against
      windup, the lever tracks what it moves (Astrom and Hagglund, Advanced PID Control (2006), section 3.5). Room is
      tracked alike, so that the bound that does not rule is never far off when it does.
    * Less than `min_free_share` of memory halves the batch at once, and again when no more than that are left.
    """

    def __init__(self, config: ControllerConfig) -> None:
        self._config = config
        gains = Gains(config.kp, config.ki, config.kd)
        self._pace = Lever(gains, config.min_pace, 1.0)
        self._batch = Lever(gains, config.min_batch, config.max_batch)
        self._room = Lever(gains.times(_MEMORY_GAIN), config.min_batch, config.max_batch)
        self._gaps = GapWindow(_WINDOW_SAMPLES, _MAX_STEPS)
        self._pace_lowered = self._batch_lowered = _NEVER  # in which sample
        self._num_decoding = 0
        self._num_seen = 0  # gaps of this sample, at the last look
        self._sampled_s: float | None = None
        self._control = self._read()

    def observe(self, ratio: float, count: int = 1, fixed_share: float = 1.0) -> None:
        """A step ended: its gap over the tightest running target (1.0 = on target), for `count` streams.

        `fixed_share` is, of the step's time by the model, what no pace takes away: decodes, and as much of prompts as
        any step computes. 1.0: it had no more than that.
        """
        self._num_decoding = count
        if count > 0 and ratio > 0.0:
            self._gaps.add(Gap(ratio, count, ratio * fixed_share))

    def control(self, now_s: float, num_running: int, free_share: float) -> Control:
        """What to keep to from now on, where `num_running` hold KV blocks and a share of `free_share` is free or idle.

        Cheap but once in a period.
        """
        if self._is_due(now_s):
            num_periods = 1.0 if self._sampled_s is None else (now_s - self._sampled_s) / self._config.period_s
            self._sampled_s = now_s
            self._follow_gaps(num_periods)
            self._follow_memory(num_running, free_share, num_periods)
            self._gaps.next_sample()
            self._num_seen = 0
            self._control = self._read()
        return self._control

    def _is_due(self, now_s: float) -> bool:
        """A period has passed, and what was done shows in some steps, or no more come."""
        is_quiet = self._gaps.num_fresh == self._num_seen
        self._num_seen = self._gaps.num_fresh
        if self._sampled_s is not None and now_s - self._sampled_s < self._config.period_s:
            return False
        return is_quiet or self._num_seen >= _MIN_STEPS

    def _follow_gaps(self, num_periods: float) -> None:
        if not self._gaps.num_fresh:
            self._pace.relax(_RELAXING, num_periods)
            self._batch.relax(_RELAXING, num_periods)
            return
        pace, batch = self._pace.value, self._batch.value
        self._move_pace()
        self._move_batch()
        if self._pace.value < pace:
            self._pace_lowered = self._gaps.sample
        if self._batch.value < batch:
            self._batch_lowered = self._gaps.sample

    def _move_pace(self) -> None:
        gaps = [gap for gap in self._gaps.since(self._pace_lowered) if gap.is_paced]
        window = [gap for gap in self._gaps.since(_NEVER) if gap.is_paced]
        if window:
            self._turn(self._pace, _p99(gaps, _ratio), _p99(window, _ratio))

    def _move_batch(self) -> None:
        """By the gaps as they would be if as many ran as the bound allows."""
        batch, gaps, window = self._batch, self._gaps.since(self._batch_lowered), self._gaps.since(_NEVER)
        bound = min(batch.value, max(self._num_decoding, batch.low))
        is_pace_spent = self._pace.value <= self._pace.low
        ratio = _ratio if is_pace_spent else _fixed_ratio
        over = _p99(gaps, lambda gap: ratio(gap) * min(bound / gap.num_streams, 1.0))
        if over > 1.0:
            batch.limit(bound)
            self._pace.limit(1.0 / over)  # the model is off for prompts too, more likely than not
        under = _p99(window, lambda gap: ratio(gap) * min(max(batch.value / gap.num_streams, 1.0), _MAX_COMING))
        self._turn(batch, over, under)

    def _turn(self, lever: Lever, over: float, under: float) -> None:
        if over > self._config.fast_ratio:
            lever.cut(1.0 / over)
        elif over > 1.0:
            lever.move(-math.log(over))
        elif under < 1.0:
            lever.move(-_GROWTH * math.log(max(under, _LEAST_RATIO)))
        else:
            lever.rest()

    def _follow_memory(self, num_running: int, free_share: float, num_periods: float) -> None:
        config, room = self._config, self._room
        if free_share < config.min_free_share:
            if num_running <= room.value:
                room.limit(num_running)
                room.cut(_HALF)
        elif num_running == 0:
            room.relax(_RELAXING, num_periods)
        else:
            error = (free_share - config.free_share_goal) / config.free_share_goal
            if error < 0.0:
                room.limit(num_running)
            room.move(min(error, 1.0))

    def _read(self) -> Control:
        return Control(round(min(self._batch.value, self._room.value)), self._pace.value)


def _p99(gaps: Iterable[Gap], ratio: Callable[[Gap], float]) -> float:
    """1.0, as if on target, where there are too few gaps to say."""
    quantile = upper_quantile(((ratio(gap), gap.num_streams) for gap in gaps), _QUANTILE)
    return 1.0 if quantile is None else quantile


def _ratio(gap: Gap) -> float:
    return gap.ratio


def _fixed_ratio(gap: Gap) -> float:
    return gap.fixed_ratio
