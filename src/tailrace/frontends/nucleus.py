"""What clients send as `top_p`, in the terms of the engine."""

__all__ = ["nucleus"]

_SMALLEST = 1e-9  # less than the best token of any vocabulary has


def nucleus(top_p: float) -> float:
    """The share of probability to draw from, more than 0; who sends 0 wants the best token alone.

    What is no share stays so, for the service to refuse.
    """
    return _SMALLEST if 0.0 <= top_p < _SMALLEST else top_p
