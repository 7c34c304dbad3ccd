"""What a model is, in our words: the one description that GGUF metadata and Hugging Face config.json are read into."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Architecture", "ModelConfig", "RopeScaling"]

Architecture = Literal["llama", "qwen2", "qwen3"]


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
class ModelConfig:
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
    num_full_attention_layers: int = 0  # with sliding_window: layers with a lower index see everything
