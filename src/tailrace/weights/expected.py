"""Which tensors a model reads, by our names, with their shapes: its program knows."""

from tailrace.models.config import ModelConfig
from tailrace.models.registry import build_program
from tailrace.weights.stored import Shape

__all__ = ["expected_shapes"]


def expected_shapes(config: ModelConfig) -> dict[str, Shape]:
    """The tensors of the model proper.

    Raises UnsupportedModel when the config's sizes contradict each other.
    """
    return {name: weight.shape for name, weight in build_program(config).weights.items()}
