"""What `tailrace inspect` says about a checkpoint: sizes, formats, memory. Data only; showing it is another's work."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from tailrace.errors import SetupError
from tailrace.models.config import LatentConfig, MixtureConfig, ModelConfig, RopeScaling, SparseConfig
from tailrace.models.registry import build_program
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.expected import expected_shapes
from tailrace.weights.kv_costs import KvCost, kv_costs
from tailrace.weights.names import tensor_class
from tailrace.weights.tensor_classes import TensorClass, is_mtp_loaded, tensor_classes

__all__ = ["ModelReport", "inspect_checkpoint"]

_KV_VALUE_BYTES = 2  # bf16


@dataclass(frozen=True, slots=True)
class ModelReport:
    """A model's sizes. Bytes are of this machine's memory, unless they are called stored."""

    name: str
    source: str
    architecture: str
    fingerprint: str
    parameters: int
    active_parameters: int  # read for a token: the chosen experts, and of the embedding a row
    stored_bytes: int
    weight_bytes: int
    kv_bytes_per_token: int  # 16 bit
    kv_costs: tuple[KvCost, ...]
    context_tokens: int
    kv_tokens_at_context: int  # of them, whose keys and values are held at once
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
    num_sliding_layers: int
    rope: str
    has_chat_template: bool
    eos_ids: tuple[int, ...]
    latent: LatentConfig | None
    sparse: SparseConfig | None
    mixture: MixtureConfig | None
    num_mixture_layers: int
    num_mtp_layers: int  # in the files
    is_mtp_loaded: bool
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
    """Read every tensor that is converted once, for what that costs; `progress` is told tensors done and in all.

    Memory for KV is given at `context_tokens`, by default the whole context. Raises SetupError when that is out
    of range, CheckpointError when a tensor is damaged.
    """
    config = checkpoint.config
    context_tokens = config.max_model_tokens if context_tokens is None else context_tokens
    if not 1 <= context_tokens <= config.max_model_tokens:
        raise SetupError(f"the context of {checkpoint.name} is 1 to {config.max_model_tokens} tokens")
    classes = tensor_classes(checkpoint, progress)
    kv_tokens = _kv_tokens(config, context_tokens)
    program = build_program(config)
    kv_bytes = program.kv_values_per_token * _KV_VALUE_BYTES
    return ModelReport(
        name=checkpoint.name,
        source=str(checkpoint.source),
        architecture=config.architecture,
        fingerprint=checkpoint.fingerprint,
        parameters=sum(part.parameters for part in classes),
        active_parameters=_active_parameters(config),
        stored_bytes=checkpoint.stored_bytes,
        weight_bytes=sum(part.bytes for part in classes),
        kv_bytes_per_token=kv_bytes,
        kv_costs=kv_costs(program, checkpoint.fingerprint),
        context_tokens=context_tokens,
        kv_tokens_at_context=kv_tokens,
        kv_bytes_at_context=kv_bytes * kv_tokens,
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
        num_sliding_layers=_num_sliding(config),
        rope=_rope(config),
        has_chat_template=checkpoint.chat_template is not None,
        eos_ids=checkpoint.eos_ids,
        latent=config.latent,
        sparse=config.sparse,
        mixture=config.mixture,
        num_mixture_layers=sum(_is_mixture(config, layer) for layer in range(config.num_layers)),
        num_mtp_layers=config.num_mtp_layers,
        is_mtp_loaded=is_mtp_loaded(checkpoint),
        tensors=classes,
    )


def _num_sliding(config: ModelConfig) -> int:
    return sum(config.window_of(layer) is not None for layer in range(config.num_layers))


def _kv_tokens(config: ModelConfig, context_tokens: int) -> int:
    """What is behind the window of every layer is given up, an eighth of a window at a time."""
    window = config.sliding_window
    if window is None or _num_sliding(config) < config.num_layers:
        return context_tokens
    return min(context_tokens, window + window // 8)


def _is_mixture(config: ModelConfig, layer: int) -> bool:
    return config.mixture is not None and config.mixture.is_mixture(layer)


def _active_parameters(config: ModelConfig) -> int:
    routing = config.mixture.routing if config.mixture else None
    active = 0
    for name, shape in expected_shapes(config).items():
        part, count = tensor_class(name), prod(shape)
        if routing is not None and part.startswith("experts."):
            count = count * routing.top_k // routing.num_experts
        active += 0 if part == "embed" and not config.tie_word_embeddings else count
    return active


def _rope(config: ModelConfig) -> str:
    """In words: `theta 500000, llama3 x8 from 8192 tokens`."""
    base = f"theta {config.rope_theta:g}"
    return base if config.rope_scaling is None else f"{base}, {_scaling(config.rope_scaling)}"


def _scaling(scaling: RopeScaling) -> str:
    if scaling.kind == "factors":
        return f"{len(scaling.factors)} factors of its own"
    trained = f" from {scaling.original_max_tokens} tokens" if scaling.original_max_tokens else ""
    return f"{scaling.kind} x{scaling.factor:g}{trained}"
