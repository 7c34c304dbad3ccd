"""Bounds of the scheduler, checked once."""

from dataclasses import dataclass

from tailrace.errors import SetupError

__all__ = ["SchedulerConfig"]


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """All counts are at least one; `budget_tokens` is at least `max_running`, so that each stream moves every step."""

    budget_tokens: int  # computed in one step
    max_running: int
    max_waiting: int
    max_waiting_tokens: int
    max_model_tokens: int  # prompt and output of one sequence
    eos_ids: tuple[int, ...]

    def __post_init__(self) -> None:
        for name in ("max_running", "max_waiting", "max_waiting_tokens", "max_model_tokens"):
            if getattr(self, name) < 1:
                raise SetupError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.budget_tokens < self.max_running:
            raise SetupError(
                f"budget_tokens is {self.budget_tokens} but max_running is {self.max_running}: "
                "each running stream needs one token of every step; raise the budget or lower max_running"
            )
