"""Which tensors a model reads, by our names, with their shapes: its program knows."""

from math import prod

from tailrace.models.config import ModelConfig
from tailrace.models.registry import build_program
from tailrace.weights.names import tensor_class
from tailrace.weights.stored import Shape

__all__ = ["active_parameters", "expected_shapes"]


def expected_shapes(config: ModelConfig) -> dict[str, Shape]:
    """The tensors of the model proper.

    Raises UnsupportedModel when the config's sizes contradict each other.
    """
    return {name: weight.shape for name, weight in build_program(config).weights.items()}


def active_parameters(config: ModelConfig) -> int:
    """Those that are read for a token: the chosen experts, and of an embedding that is no head, a row or none."""
    routing = config.mixture.routing if config.mixture else None
    active = 0
    for name, shape in expected_shapes(config).items():
        part, count = tensor_class(name), prod(shape)
        if routing is not None and part.startswith("experts."):
            count = count * routing.top_k // routing.num_experts
        active += 0 if part == "embed" and not config.tie_word_embeddings else count
    return active
