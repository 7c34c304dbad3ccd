"""How fast the waiting queue drains, to tell a refused client when to come back."""

__all__ = ["DrainPace"]

MEMORY_STEPS = 256
MIN_RETRY_S, DEFAULT_RETRY_S, MAX_RETRY_S = 1.0, 5.0, 60.0


class DrainPace:
    """Tokens admitted per second of stepping while somebody waited, over the last few hundred steps."""

    def __init__(self) -> None:
        self._tokens = 0.0
        self._seconds = 0.0

    def observe(self, num_admitted_tokens: int, step_s: float) -> None:
        keep = 1.0 - 1.0 / MEMORY_STEPS
        self._tokens = self._tokens * keep + num_admitted_tokens
        self._seconds = self._seconds * keep + step_s

    def retry_after_s(self, num_waiting_tokens: int) -> float:
        """When the tokens that wait now will have been admitted, within reason."""
        if self._seconds <= 0.0:
            return DEFAULT_RETRY_S
        estimate_s = num_waiting_tokens * self._seconds / max(self._tokens, 1.0)
        return min(max(estimate_s, MIN_RETRY_S), MAX_RETRY_S)
