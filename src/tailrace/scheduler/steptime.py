"""How long a step will take, learnt from those before it. Knows sizes and seconds, nothing of requests or devices."""

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from statistics import median
from typing import Any

from tailrace.scheduler.least_squares import Five, NonNegativeFit
from tailrace.scheduler.plan import StepSize

__all__ = ["COEFFICIENTS", "REGIME_BOUNDS", "StepTimeModel"]

COEFFICIENTS = ("step_s", "token_s", "sample_s", "alone_read_s", "shared_read_s")
"""Of a regime: seconds a step, and for each row, each row put through the head, and each position met by a row that is
alone in its sequence, and by one of several."""

REGIME_BOUNDS = (1, 8, 64)
"""Steps of up to so many rows are a regime each, and those of more are the last: one row is multiplied by other kernels
than some, and with few of them weights are read more slowly than they are multiplied."""

_SOME_ROWS = 2  # the first regime of steps long enough to tell what a row takes
_WINDOW = 256  # predictions whose errors are kept
_PACE_SHARE = 0.2  # of how much longer a step took than predicted: the machine is that much slower now, for all steps
_PACE_RETURN = 0.001  # to 1, with each step: what lasts is learnt by the regimes themselves
_STEPS_TO_TRUST = 8  # of a regime: before that, a difference tells of the model and not of the machine
_FIRST_SHARES = (0.5, 0.25, 0.25)  # of the first step ever, to the step, its rows and its samples


class StepTimeModel:
    """Seconds from plan to result. In each regime of `REGIME_BOUNDS` time is linear in what `StepSize` counts.

    No coefficient is ever negative: in a regime, more work never costs less time. A regime that has seen nothing has
    the coefficients of the nearest that has, and its own from its first step on. What makes the whole machine slower
    for a while, such as a neighbour, is a factor over all regimes, the pace, which follows within a few steps.
    `full_tokens`: rows of a full step.
    """

    def __init__(self, full_tokens: int = 512) -> None:
        self._full_tokens = full_tokens
        self._fits: list[NonNegativeFit | None] = [None] * (len(REGIME_BOUNDS) + 1)
        self._used: list[NonNegativeFit] = []  # by each regime: its own, or a neighbour's; empty before the first step
        self._pace = 1.0  # by which all fits are multiplied
        self._errors: deque[float] = deque(maxlen=_WINDOW)

    def observe(self, size: StepSize, took_s: float) -> None:
        """A step of this size took so long. One that computed nothing, or took no time, is ignored."""
        if took_s <= 0.0 or size.num_tokens <= 0:
            return
        regime = bisect_left(REGIME_BOUNDS, size.num_tokens)
        features = _features(size)
        if self._used:
            self._errors.append(abs(self._pace * self._used[regime].predict(features) / took_s - 1.0))
        fit = self._fits[regime] or self._begin(regime, size, took_s)
        residual = fit.observe(features, took_s / self._pace)
        if fit.num_observed > _STEPS_TO_TRUST:
            self._pace *= 1.0 + _PACE_SHARE * residual
            self._pace += _PACE_RETURN * (1.0 - self._pace)

    def predict(self, size: StepSize) -> float | None:
        """None before the first step."""
        if not self._used:
            return None
        return self._pace * self._used[bisect_left(REGIME_BOUNDS, size.num_tokens)].predict(_features(size))

    @property
    def median_error(self) -> float | None:
        """Relative, of the latest predictions, each made before its step was observed; None before the first."""
        return median(self._errors) if self._errors else None

    @property
    def prefill_rate(self) -> float | None:
        """Tokens a second of short prompts that are computed in full steps with nobody beside them; see `prompt_s`."""
        took_s = self.prompt_s(self._full_tokens)
        return self._full_tokens / took_s if took_s else None

    def prompt_s(self, num_tokens: int, num_before: int = 0) -> float | None:
        """Seconds that so many tokens of a prompt take, behind so many cached ones, in full steps with nobody beside.

        None before the first step of some rows: from what a few take it cannot be told.
        """
        if not any(self._fits[_SOME_ROWS:]):
            return None
        count = min(num_tokens, self._full_tokens)
        num_read = round(count * (num_before + (num_tokens + 1) / 2))  # by the mean token
        took_s = self.predict(StepSize(count, 1, num_read))
        return None if took_s is None else took_s * num_tokens / count

    def to_dict(self) -> dict[str, Any]:
        """What is known, as plain values for `from_dict`; a regime that has seen nothing is None."""
        regimes = [None if fit is None else self._named(fit.c) for fit in self._fits]
        return {"full_tokens": self._full_tokens, "regime_bounds": list(REGIME_BOUNDS), "regimes": regimes}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "StepTimeModel":
        """A model that predicts as the saved one did, and learns on. Raises ValueError for what is not of this form."""
        if list(saved["regime_bounds"]) != list(REGIME_BOUNDS) or len(saved["regimes"]) != len(REGIME_BOUNDS) + 1:
            raise ValueError(
                f"the regimes of this step-time model are bounded by {saved['regime_bounds']}, ours by {REGIME_BOUNDS}"
            )
        model = cls(saved["full_tokens"])
        model._fits = [None if known is None else NonNegativeFit(_coefficients(known)) for known in saved["regimes"]]
        model._used = model._borrow()
        return model

    def _named(self, c: Five) -> dict[str, float]:
        return {name: self._pace * each for name, each in zip(COEFFICIENTS, c, strict=True)}

    def _begin(self, regime: int, size: StepSize, took_s: float) -> NonNegativeFit:
        """A fit for the first step of a regime: like that of the nearest regime, or in shares if there is none."""
        if self._used:
            fit = NonNegativeFit(self._used[regime].c)
        else:
            per_step, per_token, per_sample = _FIRST_SHARES
            num_sampled = max(size.num_sampled, 1)
            fit = NonNegativeFit(
                Five(
                    took_s * per_step, took_s * per_token / size.num_tokens, took_s * per_sample / num_sampled, 0.0, 0.0
                )
            )
        self._fits[regime] = fit
        self._used = self._borrow()
        return fit

    def _borrow(self) -> list[NonNegativeFit]:
        known = [(regime, fit) for regime, fit in enumerate(self._fits) if fit is not None]
        if not known:
            return []
        return [min(known, key=lambda one: abs(one[0] - regime))[1] for regime in range(len(self._fits))]


def _features(size: StepSize) -> Five:
    num_tokens, num_sampled, num_read, num_alone = size
    return Five(1.0, num_tokens, num_sampled, num_alone, num_read - num_alone)


def _coefficients(known: Mapping[str, float]) -> Five:
    if sorted(known) != sorted(COEFFICIENTS) or not all(0.0 <= value < float("inf") for value in known.values()):
        raise ValueError(
            f"a regime of a step-time model has {', '.join(COEFFICIENTS)}, none negative; not {dict(known)}"
        )
    return Five(*(known[name] for name in COEFFICIENTS))
