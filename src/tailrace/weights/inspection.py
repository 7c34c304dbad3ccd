"""What `tailrace inspect` says about a checkpoint: sizes, formats, memory. Data only; showing it is another's work."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tailrace.errors import SetupError
from tailrace.models.config import LatentConfig, MixtureConfig, ModelConfig, RopeScaling, SparseConfig
from tailrace.models.registry import build_program
from tailrace.ops.program import Program
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.expected import active_parameters
from tailrace.weights.kv_costs import KvCost, kv_costs
from tailrace.weights.precision import AS_STORED, KvCacheDtype, Precision
from tailrace.weights.tensor_classes import (
    TensorClass,
    by_precision_class,
    by_role,
    is_mtp_loaded,
    loaded_tensors,
)

__all__ = ["ModelReport", "inspect_checkpoint"]

_USUAL_KV: KvCacheDtype = "bf16"
_USUAL_KV_BYTES = 2


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
    kv_cache_dtype: KvCacheDtype
    kv_bytes_per_token: int  # in that format
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
    quantize: str  # the precision in words, without what is usual; empty: as stored
    classes: tuple[TensorClass, ...]  # as `--quantize` knows them
    tensors: tuple[TensorClass, ...]

    @property
    def memory_bytes(self) -> int:
        """Weights, and the KV of one sequence that fills the context."""
        return self.weight_bytes + self.kv_bytes_at_context

    @property
    def expert_bytes(self) -> int:
        """All experts that tokens choose among."""
        return sum(part.bytes for part in self.classes if part.name == "experts")

    @property
    def chosen_expert_bytes(self) -> int:
        """Those that one token chooses, in all layers: with fewer in memory, each step loads some."""
        routing = None if self.mixture is None else self.mixture.routing
        return 0 if routing is None else self.expert_bytes * routing.top_k // routing.num_experts

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        of_experts = {"expert_bytes": self.expert_bytes, "chosen_expert_bytes": self.chosen_expert_bytes}
        return asdict(self) | {"memory_bytes": self.memory_bytes} | of_experts


def inspect_checkpoint(
    checkpoint: Checkpoint,
    *,
    context_tokens: int | None = None,
    precision: Precision = AS_STORED,
    progress: Callable[[int, int], None] | None = None,
) -> ModelReport:
    """Read every tensor that is converted once, for what that costs; `progress` is told tensors done and in all.

    Memory for KV is given at `context_tokens`, by default the whole context. `precision` is what it was opened with.
    Raises SetupError when the context is out of range, CheckpointError when a tensor is damaged.
    """
    config = checkpoint.config
    context_tokens = config.max_model_tokens if context_tokens is None else context_tokens
    if not 1 <= context_tokens <= config.max_model_tokens:
        raise SetupError(f"the context of {checkpoint.name} is 1 to {config.max_model_tokens} tokens")
    tensors = list(loaded_tensors(checkpoint, progress))
    kv_tokens = _kv_tokens(config, context_tokens)
    program = build_program(config)
    costs = kv_costs(program, checkpoint.fingerprint)
    kv_bytes = _kv_bytes(program, costs, precision.kv)
    return ModelReport(
        name=checkpoint.name,
        source=str(checkpoint.source),
        architecture=config.architecture,
        fingerprint=checkpoint.fingerprint,
        parameters=sum(tensor.parameters for tensor in tensors),
        active_parameters=active_parameters(config),
        stored_bytes=checkpoint.stored_bytes,
        weight_bytes=sum(tensor.bytes for tensor in tensors),
        kv_cache_dtype=precision.kv or _USUAL_KV,
        kv_bytes_per_token=kv_bytes,
        kv_costs=costs,
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
        quantize=str(precision),
        classes=by_precision_class(tensors),
        tensors=by_role(tensors),
    )


def _kv_bytes(program: Program, costs: Sequence[KvCost], kv: KvCacheDtype | None) -> int:
    """Of one token: in the usual format its values alone, in one that was asked for as they lie in memory."""
    asked = {cost.kv_cache_dtype: cost.bytes_per_token for cost in costs}
    return program.kv_values_per_token * _USUAL_KV_BYTES if kv is None else asked[kv]


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


def _rope(config: ModelConfig) -> str:
    """In words: `theta 500000, llama3 x8 from 8192 tokens`."""
    base = f"theta {config.rope_theta:g}"
    return base if config.rope_scaling is None else f"{base}, {_scaling(config.rope_scaling)}"


def _scaling(scaling: RopeScaling) -> str:
    if scaling.kind == "factors":
        return f"{len(scaling.factors)} factors of its own"
    trained = f" from {scaling.original_max_tokens} tokens" if scaling.original_max_tokens else ""
    return f"{scaling.kind} x{scaling.factor:g}{trained}"
