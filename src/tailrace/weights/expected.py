"""Which tensors a model reads, by our names, with their shapes: its program knows."""

from collections.abc import Iterator
from dataclasses import replace

from tailrace.models.config import ModelConfig
from tailrace.models.registry import build_program
from tailrace.weights.stored import Shape

__all__ = ["expected_shapes", "mtp_shapes"]


def expected_shapes(config: ModelConfig) -> dict[str, Shape]:
    """The tensors of the model proper.

    Raises UnsupportedModel when the config's sizes contradict each other.
    """
    return {name: weight.shape for name, weight in build_program(config).weights.items()}


def mtp_shapes(config: ModelConfig) -> dict[str, Shape]:
    """The tensors that predict further tokens: each module has a block like those of the model, and what joins it on.

    The input of a module is eh_proj [d, 2 * d] of a token's embedding, normed by enorm, and the hidden state before
    it, normed by hnorm; the model's head reads its output, normed by shared_head_norm.
    """
    return dict(_mtp_shapes(config))


def _mtp_shapes(config: ModelConfig) -> Iterator[tuple[str, Shape]]:
    hidden = config.hidden_size
    deeper = expected_shapes(replace(config, num_layers=config.num_layers + config.num_mtp_layers))
    for module in range(config.num_mtp_layers):
        block = f"layers.{config.num_layers + module}."
        parts = {name.removeprefix(block): shape for name, shape in deeper.items() if name.startswith(block)}
        parts |= {"enorm": (hidden,), "hnorm": (hidden,), "eh_proj": (hidden, 2 * hidden)}
        parts["shared_head_norm"] = (hidden,)
        yield from ((f"mtp.{module}.{part}", shape) for part, shape in parts.items())
