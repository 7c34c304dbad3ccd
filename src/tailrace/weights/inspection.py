"""What `tailrace inspect` says about a checkpoint: sizes, formats, memory. Data only; showing it is another's work."""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import prod, sqrt
from typing import Any

from tailrace.errors import SetupError
from tailrace.models.config import ModelConfig, RopeScaling
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.expected import expected_shapes
from tailrace.weights.names import tensor_class

__all__ = ["ModelReport", "TensorClass", "inspect_checkpoint"]

_KV_VALUE_BYTES = 2  # bf16


@dataclass(frozen=True, slots=True)
class TensorClass:
    """All tensors of one role, over the layers. `formats` counts tensors: as stored -> as loaded, how many."""

    name: str
    num_tensors: int
    parameters: int
    bytes: int  # as loaded
    formats: tuple[tuple[str, str, int], ...]
    requantize_error: float | None  # relative RMS over the class; None: nothing was lost


@dataclass(frozen=True, slots=True)
class ModelReport:
    """A model's sizes. Bytes are of this machine's memory, unless they are called stored."""

    name: str
    source: str
    architecture: str
    fingerprint: str
    parameters: int
    stored_bytes: int
    weight_bytes: int
    kv_bytes_per_token: int  # 16 bit
    context_tokens: int
    kv_bytes_at_context: int
    max_model_tokens: int
    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    is_tied: bool
    sliding_window: int | None
    rope: str
    has_chat_template: bool
    eos_ids: tuple[int, ...]
    tensors: tuple[TensorClass, ...]

    @property
    def memory_bytes(self) -> int:
        """Weights, and the KV of one sequence that fills the context."""
        return self.weight_bytes + self.kv_bytes_at_context

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return asdict(self) | {"memory_bytes": self.memory_bytes}


def inspect_checkpoint(
    checkpoint: Checkpoint,
    *,
    context_tokens: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ModelReport:
    """Read every tensor once, for what requantising costs; `progress` is told tensors done and in all.

    Memory for KV is given at `context_tokens`, by default the whole context. Raises SetupError when that is out
    of range, CheckpointError when a tensor is damaged.
    """
    config = checkpoint.config
    context_tokens = config.max_model_tokens if context_tokens is None else context_tokens
    if not 1 <= context_tokens <= config.max_model_tokens:
        raise SetupError(f"the context of {checkpoint.name} is 1 to {config.max_model_tokens} tokens")
    classes = _tensor_classes(checkpoint, progress)
    kv_bytes = config.num_layers * 2 * config.num_kv_heads * config.head_dim * _KV_VALUE_BYTES
    return ModelReport(
        name=checkpoint.name,
        source=str(checkpoint.source),
        architecture=config.architecture,
        fingerprint=checkpoint.fingerprint,
        parameters=sum(part.parameters for part in classes),
        stored_bytes=checkpoint.stored_bytes,
        weight_bytes=sum(part.bytes for part in classes),
        kv_bytes_per_token=kv_bytes,
        context_tokens=context_tokens,
        kv_bytes_at_context=kv_bytes * context_tokens,
        max_model_tokens=config.max_model_tokens,
        num_layers=config.num_layers,
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_heads=config.num_heads,
        num_kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        vocab_size=config.vocab_size,
        is_tied=config.tie_word_embeddings,
        sliding_window=config.sliding_window,
        rope=_rope(config),
        has_chat_template=checkpoint.chat_template is not None,
        eos_ids=checkpoint.eos_ids,
        tensors=classes,
    )


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


def _tensor_classes(checkpoint: Checkpoint, progress: Callable[[int, int], None] | None) -> tuple[TensorClass, ...]:
    shapes = expected_shapes(checkpoint.config)
    sums: dict[str, _Sum] = {}
    for done, (name, shape) in enumerate(shapes.items(), start=1):
        packed = checkpoint.tensors[name]
        part = sums.setdefault(tensor_class(name), _Sum())
        part.parameters += prod(shape)
        part.bytes += packed.num_bytes
        part.formats[checkpoint.stored_formats.get(name, packed.format), packed.format] += 1
        if name in checkpoint.requantize_errors:
            part.errors.append(checkpoint.requantize_errors[name])
        if progress:
            progress(done, len(shapes))
    return tuple(part.result(name) for name, part in sums.items())


def _rope(config: ModelConfig) -> str:
    """In words: `theta 500000, llama3 x8 from 8192 tokens`."""
    base = f"theta {config.rope_theta:g}"
    return base if config.rope_scaling is None else f"{base}, {_scaling(config.rope_scaling)}"


def _scaling(scaling: RopeScaling) -> str:
    if scaling.kind == "factors":
        return f"{len(scaling.factors)} factors of its own"
    trained = f" from {scaling.original_max_tokens} tokens" if scaling.original_max_tokens else ""
    return f"{scaling.kind} x{scaling.factor:g}{trained}"
