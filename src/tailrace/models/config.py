"""What a model is, in our words: the one description that GGUF metadata and Hugging Face config.json are read into."""

from dataclasses import dataclass
from typing import Literal

from tailrace.ops.program import Routing

__all__ = ["Architecture", "LatentConfig", "MixtureConfig", "ModelConfig", "RopeScaling", "SparseConfig"]

# Those of DeepSeek: MoE-16B; V2 (Lite, Coder-V2, V2.5); V3 (R1, V3.1); V3.2.
Architecture = Literal["llama", "qwen2", "qwen3", "deepseek", "deepseek_v2", "deepseek_v3", "deepseek_v32"]


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How rotary frequencies are stretched beyond the context a model was trained with.

    `factors` divides each frequency by its own number (GGUF `rope_freqs.weight`, already computed llama3 scaling).
    """

    kind: Literal["linear", "dynamic", "yarn", "llama3", "factors"]
    factor: float = 1.0
    original_max_tokens: int = 0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    attention_factor: float | None = None
    mscale: float = 0.0
    mscale_all_dim: float = 0.0
    truncate: bool = True
    factors: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class LatentConfig:
    """Sizes of multi-head latent attention. Queries have `plain_dim + rope_dim` values a head."""

    latent_dim: int  # kv_lora_rank, r
    plain_dim: int  # qk_nope_head_dim, dn
    rope_dim: int  # qk_rope_head_dim, dr
    value_dim: int  # v_head_dim, dv
    query_latent_dim: int | None = None  # q_lora_rank; None: queries are projected in one step


@dataclass(frozen=True, slots=True)
class SparseConfig:
    """The lightning indexer of DeepSeek sparse attention: rotary are the first `LatentConfig.rope_dim` of a head."""

    num_heads: int
    head_dim: int
    top_k: int


@dataclass(frozen=True, slots=True)
class MixtureConfig:
    """Which layers are mixtures of experts, and of what: layer L is one from `first_layer` on, if L % `every` == 0."""

    routing: Routing
    expert_size: int  # intermediate size of one
    num_shared: int = 0  # experts that every token goes through, together one MLP
    first_layer: int = 0
    every: int = 1
    has_bias: bool = False  # e_score_correction_bias

    def is_mixture(self, layer: int) -> bool:
        return layer >= self.first_layer and layer % self.every == 0


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """With `latent`, `head_dim` is that of queries, and `num_kv_heads` and `rotary_dim` mean nothing."""

    architecture: Architecture
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_model_tokens: int
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: RopeScaling | None = None
    rope_interleaved: bool = False  # GGUF stores llama's q and k rows so that pairs are neighbours
    rotary_dim: int | None = None  # None: the whole head
    tie_word_embeddings: bool = False
    qkv_bias: bool = False  # Qwen2
    output_bias: bool = False  # a bias on the attention output (Llama with attention_bias)
    qk_norm: bool = False  # Qwen3
    sliding_window: int | None = None
    num_full_attention_layers: int = 0  # with sliding_window: layers with a lower index see everything,
    full_attention_layers: tuple[int, ...] = ()  # and so do these
    latent: LatentConfig | None = None  # DeepSeek V2 and later
    sparse: SparseConfig | None = None  # V3.2
    mixture: MixtureConfig | None = None
    num_mtp_layers: int = 0  # multi-token prediction (V3), stored behind the decoder's layers

    def window_of(self, layer: int) -> int | None:
        """How many positions the attention of `layer` sees, its own included; None: all."""
        is_full = layer < self.num_full_attention_layers or layer in self.full_attention_layers
        return None if is_full else self.sliding_window
