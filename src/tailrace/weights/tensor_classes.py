"""The tensors of a checkpoint summed up by what they are: numbers, bytes, formats, and what converting them lost."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import prod, sqrt

from tailrace.ops.packed import WeightFormat
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.expected import expected_shapes
from tailrace.weights.mtp import mtp_shapes
from tailrace.weights.names import tensor_class
from tailrace.weights.stored import Shape

__all__ = ["TensorClass", "is_mtp_loaded", "tensor_classes"]

_FLOAT_BYTES: dict[WeightFormat, int] = {"f32": 4, "f16": 2, "bf16": 2}


@dataclass(frozen=True, slots=True)
class TensorClass:
    """All tensors of one role, over the layers. `formats` counts tensors: as stored -> as loaded, how many."""

    name: str
    num_tensors: int
    parameters: int
    bytes: int  # as loaded
    formats: tuple[tuple[str, str, int], ...]
    requantize_error: float | None  # relative RMS over the class; None: nothing was lost


class _Sum:
    """What is added up over the tensors of one class."""

    def __init__(self) -> None:
        self.parameters = self.bytes = 0
        self.formats: Counter[tuple[str, str]] = Counter()
        self.errors: list[float] = []

    def result(self, name: str) -> TensorClass:
        formats = tuple((stored, loaded, count) for (stored, loaded), count in sorted(self.formats.items()))
        # Tensors of a class have one size and, near enough, one magnitude: their errors are averaged as such.
        error = sqrt(sum(error**2 for error in self.errors) / len(self.errors)) if self.errors else None
        return TensorClass(name, self.formats.total(), self.parameters, self.bytes, formats, error)


def tensor_classes(
    checkpoint: Checkpoint, progress: Callable[[int, int], None] | None = None
) -> tuple[TensorClass, ...]:
    """Look at every tensor once; `progress` is told tensors done and in all."""
    shapes = expected_shapes(checkpoint.config)
    if is_mtp_loaded(checkpoint):
        shapes |= mtp_shapes(checkpoint.config)
    sums: dict[str, _Sum] = {}
    for done, (name, shape) in enumerate(shapes.items(), start=1):
        loaded, num_bytes = _as_loaded(checkpoint, name, shape)
        part = sums.setdefault(_class(name), _Sum())
        part.parameters += prod(shape)
        part.bytes += num_bytes
        part.formats[checkpoint.stored_formats.get(name, loaded), loaded] += 1
        if name in checkpoint.requantize_errors:
            part.errors.append(checkpoint.requantize_errors[name])
        if progress:
            progress(done, len(shapes))
    return tuple(part.result(name) for name, part in sums.items())


def is_mtp_loaded(checkpoint: Checkpoint) -> bool:
    return "mtp.0.enorm" in checkpoint.tensors


def _class(name: str) -> str:
    return f"mtp {tensor_class(name)}" if name.startswith("mtp.") else tensor_class(name)


def _as_loaded(checkpoint: Checkpoint, name: str, shape: Shape) -> tuple[WeightFormat, int]:
    """Format and bytes. What stays as it is stored is not read for it: a model's experts may be most of a disk."""
    kept = checkpoint.float_matrices.get(name)
    if kept is not None:
        return kept, prod(shape) * _FLOAT_BYTES[kept]
    packed = checkpoint.tensors[name]
    return packed.format, packed.num_bytes
