"""The parts of a block that all our models share: norms, the gated MLP, and the way from hidden states to logits."""

from tailrace.models.config import ModelConfig
from tailrace.ops.builder import ProgramBuilder
from tailrace.ops.program import Tensor, Weight

__all__ = ["embedding", "gated_mlp", "head", "norm"]


def embedding(config: ModelConfig) -> Weight:
    return Weight("embed", (config.vocab_size, config.hidden_size))


def norm(build: ProgramBuilder, config: ModelConfig, name: str, x: Tensor) -> Tensor:
    """Record rms_norm(x) with the weight `name`."""
    return build.rms_norm(x, Weight(name, (config.hidden_size,)), config.rms_norm_eps)


def gated_mlp(build: ProgramBuilder, name: str, inner: int, x: Tensor, *, residual: Tensor) -> Tensor:
    """Record down(silu(gate(x)) * up(x)) + residual with the weights `name`.*; x and the result are [rows, hidden]."""
    gate_up = build.linear(x, Weight(f"{name}.gate", (inner, x.cols)), Weight(f"{name}.up", (inner, x.cols)))
    return build.linear(build.swiglu(gate_up), Weight(f"{name}.down", (residual.cols, inner)), residual=residual)


def head(build: ProgramBuilder, config: ModelConfig, x: Tensor) -> Tensor:
    """Record the logits [samples, vocab] of x [samples, hidden]."""
    tied = embedding(config)
    weight = tied if config.tie_word_embeddings else Weight("head", tied.shape)
    return build.linear(norm(build, config, "norm", x), weight)
