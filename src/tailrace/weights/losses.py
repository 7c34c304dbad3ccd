"""What converting tensors on their way in has lost, by the format that they had in the file."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from tailrace.weights.checkpoint import Checkpoint

__all__ = ["Loss", "losses"]


@dataclass(frozen=True, slots=True)
class Loss:
    """Of all tensors that a file has in one format and memory in a narrower one."""

    stored_format: str
    num_tensors: int
    error: float  # relative RMS


def losses(checkpoint: Checkpoint) -> Sequence[Loss]:
    """Of the tensors that were read so far, by format."""
    errors: dict[str, list[float]] = {}
    for name, error in checkpoint.requantize_errors.items():
        errors.setdefault(checkpoint.stored_formats[name], []).append(error)
    return [
        Loss(stored, len(found), sqrt(sum(error**2 for error in found) / len(found)))
        for stored, found in sorted(errors.items())
    ]
