"""Step-time models that are made up."""

from tailrace.scheduler.steptime import COEFFICIENTS, REGIME_BOUNDS, StepTimeModel

__all__ = ["constant_cost"]


def constant_cost(step_s: float, token_s: float = 0.0) -> StepTimeModel:
    """Each step takes as long, and so much longer for each row."""
    regime = dict.fromkeys(COEFFICIENTS, 0.0) | {"step_s": step_s, "token_s": token_s}
    regimes = [regime] * (len(REGIME_BOUNDS) + 1)
    return StepTimeModel.from_dict({"full_tokens": 512, "regime_bounds": list(REGIME_BOUNDS), "regimes": regimes})
