"""Bounds of the scheduler, checked once."""

from dataclasses import dataclass

from tailrace.errors import SetupError

__all__ = ["SchedulerConfig"]


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """All counts are at least one; `budget_tokens` is at least `max_running`, so that each stream moves every step.

    `chunk_tokens` is how many tokens of prompts a step may add to running streams: what a stream waits for others.
    """

    budget_tokens: int  # computed in one step
    max_running: int
    max_waiting: int
    max_waiting_tokens: int
    max_model_tokens: int  # prompt and output of one sequence
    eos_ids: tuple[int, ...]
    chunk_tokens: int | None = None  # None: as many as the budget leaves

    def __post_init__(self) -> None:
        for name in ("max_running", "max_waiting", "max_waiting_tokens", "max_model_tokens"):
            if getattr(self, name) < 1:
                raise SetupError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.chunk_tokens is not None and self.chunk_tokens < 1:
            raise SetupError(f"chunk_tokens must be at least 1, not {self.chunk_tokens}: prompts would wait for ever")
        if self.budget_tokens < self.max_running:
            raise SetupError(
                f"budget_tokens is {self.budget_tokens} but max_running is {self.max_running}: "
                "each running stream needs one token of every step; raise the budget or lower max_running"
            )
