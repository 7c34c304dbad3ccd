"""The shapes that are measured: a whole model, and the linears and experts of another one by one."""

from dataclasses import dataclass

from tailrace.models.config import MixtureConfig, ModelConfig
from tailrace.ops.program import Routing

__all__ = ["R1_DISTILL_QWEN_1_5B", "V2_LITE", "V2_LITE_EXPERTS", "V2_LITE_HIDDEN", "Projections"]

R1_DISTILL_QWEN_1_5B = ModelConfig(
    architecture="qwen2",
    vocab_size=151936,
    hidden_size=1536,
    intermediate_size=8960,
    num_layers=28,
    num_heads=12,
    num_kv_heads=2,
    head_dim=128,
    max_model_tokens=8192,
    rms_norm_eps=1e-6,
    rope_theta=1e4,
    qkv_bias=True,
)


@dataclass(frozen=True, slots=True)
class Projections:
    """Linears that share one input of `inputs` columns, by name and number of outputs. `prefix` tells them apart.

    `is_gated`: two of equal width, whose SwiGLU goes through a third, "down", back to `inputs` columns.
    `is_sampled`: computed for the rows that are sampled only.
    """

    inputs: int
    outputs: dict[str, int]
    prefix: str = ""
    is_gated: bool = False
    is_sampled: bool = False


V2_LITE_HIDDEN = 2048


def _gated(prefix: str, inner: int) -> Projections:
    return Projections(V2_LITE_HIDDEN, {"gate": inner, "up": inner}, prefix, is_gated=True)


# DeepSeek-V2-Lite: hidden 2048, 16 heads of 128 + 64, latent 512 + 64, 64 experts and 2 shared of 1408, dense 10944.
V2_LITE = (
    Projections(V2_LITE_HIDDEN, {"q": 16 * (128 + 64), "kv_a": 512 + 64}),
    Projections(512, {"kv_b": 16 * (128 + 128)}),
    Projections(16 * 128, {"o": V2_LITE_HIDDEN}),
    _gated("dense ", 10944),
    _gated("shared ", 2 * 1408),
    Projections(V2_LITE_HIDDEN, {"head": 102400}, is_sampled=True),
)
V2_LITE_EXPERTS = MixtureConfig(Routing(64, 6, "softmax"), expert_size=1408)
