"""What we want to reach, as ratios to the peer that is best at that very figure."""

from dataclasses import dataclass

from benchmarks.serving.figures import (
    ITL_P50,
    ITL_P99,
    OUTPUT_RATE,
    PROMPT_RATE,
    TTFT_P50,
    TTFT_P95,
    Figure,
)

__all__ = ["AIMS", "LARGE_AIMS", "Aim"]


@dataclass(frozen=True, slots=True)
class Aim:
    """`ratio`: ours to the best peer's, at least that for a rate, at most that for a time."""

    workload: str
    figure: Figure
    ratio: float

    def is_met(self, ratio: float) -> bool:
        return ratio >= self.ratio if self.figure.is_rate else ratio <= self.ratio

    def __str__(self) -> str:
        return f"{'>=' if self.figure.is_rate else '<='} {self.ratio:.2f}"


AIMS = (
    Aim("W1", ITL_P50, 0.45),
    Aim("W1", TTFT_P50, 0.8),
    Aim("W2", OUTPUT_RATE, 2.3),
    Aim("W2", ITL_P99, 0.4),
    Aim("W3", OUTPUT_RATE, 2.5),
    Aim("W3", TTFT_P95, 0.5),
    Aim("W3", ITL_P99, 0.45),
    Aim("W4", OUTPUT_RATE, 1.9),
    Aim("W4", ITL_P99, 0.5),
    Aim("W5", PROMPT_RATE, 1.3),
)

# Whatever the model: no worse than the best.
LARGE_AIMS = (
    Aim("L1", ITL_P50, 1.0),
    Aim("L1", PROMPT_RATE, 1.0),
    Aim("L2", OUTPUT_RATE, 1.0),
    Aim("L2", ITL_P50, 1.0),
)
