"""Bounds of the scheduler, checked once."""

from dataclasses import dataclass, field

from tailrace.classes import STANDARD, ServiceClasses
from tailrace.errors import SetupError
from tailrace.scheduler.preemption import PreemptionConfig

__all__ = ["SchedulerConfig"]


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """All counts are at least one; `budget_tokens` is at least `max_running`, so that each stream moves every step.

    `chunk_tokens` is how many tokens of prompts a step may add to running streams. None: as many as the step-time model
    says that the streams can bear; while it knows too little, as many as the budget leaves.
    """

    budget_tokens: int  # computed in one step
    max_running: int
    max_model_tokens: int  # prompt and output of one sequence
    eos_ids: tuple[int, ...]
    chunk_tokens: int | None = None
    classes: ServiceClasses = STANDARD  # with targets that this machine can meet
    target_scale: float = 1.0  # how many times as long as on faster machines they are
    preemption: PreemptionConfig = field(default_factory=PreemptionConfig)

    def __post_init__(self) -> None:
        for name in ("max_running", "max_model_tokens"):
            if getattr(self, name) < 1:
                raise SetupError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.chunk_tokens is not None and self.chunk_tokens < 1:
            raise SetupError(f"chunk_tokens must be at least 1, not {self.chunk_tokens}: prompts would wait for ever")
        if self.budget_tokens < self.max_running:
            raise SetupError(
                f"budget_tokens is {self.budget_tokens} but max_running is {self.max_running}: "
                "each running stream needs one token of every step; raise the budget or lower max_running"
            )
