"""The tensors of a checkpoint summed up by what they are: numbers, bytes, formats, and what converting them lost."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod, sqrt

from tailrace.ops.packed import WeightFormat
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.expected import expected_shapes
from tailrace.weights.mtp import mtp_shapes
from tailrace.weights.names import tensor_class
from tailrace.weights.precision import CLASSES, precision_class
from tailrace.weights.stored import Shape

__all__ = ["LoadedTensor", "TensorClass", "by_precision_class", "by_role", "is_mtp_loaded", "loaded_tensors"]

_FLOAT_BYTES: dict[WeightFormat, int] = {"f32": 4, "f16": 2, "bf16": 2}


@dataclass(frozen=True, slots=True)
class LoadedTensor:
    """One tensor, as it is stored and as it is in memory."""

    name: str
    parameters: int
    bytes: int  # as loaded
    stored: str
    loaded: str
    error: float | None  # relative RMS of what narrowing it lost; None: nothing was lost


@dataclass(frozen=True, slots=True)
class TensorClass:
    """All tensors of one kind, over the layers. `formats` counts tensors: as stored -> as loaded, how many."""

    name: str
    num_tensors: int
    parameters: int
    bytes: int  # as loaded
    formats: tuple[tuple[str, str, int], ...]
    requantize_error: float | None  # relative RMS over what was narrowed; None: nothing was lost

    @classmethod
    def of(cls, name: str, tensors: Sequence[LoadedTensor]) -> "TensorClass":
        formats = Counter((tensor.stored, tensor.loaded) for tensor in tensors)
        return cls(
            name,
            num_tensors=len(tensors),
            parameters=sum(tensor.parameters for tensor in tensors),
            bytes=sum(tensor.bytes for tensor in tensors),
            formats=tuple((stored, loaded, count) for (stored, loaded), count in sorted(formats.items())),
            requantize_error=_error(tensors),
        )


def loaded_tensors(
    checkpoint: Checkpoint, progress: Callable[[int, int], None] | None = None
) -> Iterator[LoadedTensor]:
    """Look at every tensor once; `progress` is told tensors done and in all."""
    shapes = expected_shapes(checkpoint.config)
    if is_mtp_loaded(checkpoint):
        shapes |= mtp_shapes(checkpoint.config)
    for done, (name, shape) in enumerate(shapes.items(), start=1):
        loaded, num_bytes = _as_loaded(checkpoint, name, shape)
        stored = checkpoint.stored_formats.get(name, loaded)
        yield LoadedTensor(name, prod(shape), num_bytes, stored, loaded, checkpoint.requantize_errors.get(name))
        if progress:
            progress(done, len(shapes))


def by_role(tensors: Sequence[LoadedTensor]) -> tuple[TensorClass, ...]:
    """`q`, `k`, `mtp q` and so on, in the order of the model."""
    return tuple(TensorClass.of(name, part) for name, part in _grouped(tensors, _role).items())


def by_precision_class(tensors: Sequence[LoadedTensor]) -> tuple[TensorClass, ...]:
    """The classes that `--quantize` knows, those that the model has."""
    groups = _grouped(tensors, precision_class)
    return tuple(TensorClass.of(name, groups[name]) for name in CLASSES if name in groups)


def is_mtp_loaded(checkpoint: Checkpoint) -> bool:
    return "mtp.0.enorm" in checkpoint.tensors


def _grouped(tensors: Sequence[LoadedTensor], key: Callable[[str], str]) -> dict[str, list[LoadedTensor]]:
    groups: defaultdict[str, list[LoadedTensor]] = defaultdict(list)
    for tensor in tensors:
        groups[key(tensor.name)].append(tensor)
    return groups


def _role(name: str) -> str:
    return f"mtp {tensor_class(name)}" if name.startswith("mtp.") else tensor_class(name)


def _error(tensors: Sequence[LoadedTensor]) -> float | None:
    """Tensors of a class have, near enough, one magnitude: their errors are averaged as such, by their sizes."""
    lossy = [(tensor.error, tensor.parameters) for tensor in tensors if tensor.error is not None]
    if not lossy:
        return None
    return sqrt(sum(error**2 * size for error, size in lossy) / sum(size for _, size in lossy))


def _as_loaded(checkpoint: Checkpoint, name: str, shape: Shape) -> tuple[WeightFormat, int]:
    """Format and bytes. What stays as it is stored is not read for it: a model's experts may be most of a disk."""
    kept = checkpoint.float_matrices.get(name)
    if kept is not None:
        return kept, prod(shape) * _FLOAT_BYTES[kept]
    packed = checkpoint.tensors[name]
    return packed.format, packed.num_bytes
