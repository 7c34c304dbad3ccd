"""Modules for multi-token prediction, which files hold as further layers and we as `mtp.K.*`, loaded when asked for."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tailrace.models.config import ModelConfig
from tailrace.weights.expected import expected_shapes
from tailrace.weights.names import file_name, layer_of
from tailrace.weights.stored import FileTensors, Shape

__all__ = ["is_mtp_tensor", "mtp_shapes", "num_mtp_layers"]


def num_mtp_layers(files: FileTensors, names: Mapping[str, str], num_layers: int) -> int:
    """How many layers behind the model's own predict further tokens: those that norm an embedding."""
    count = 0
    while file_name(names, f"mtp.{count}.enorm", num_layers) in files:
        count += 1
    return count


def is_mtp_tensor(name: str, names: Mapping[str, str], config: ModelConfig) -> bool:
    """Whether a file's tensor belongs to one of the modules, be it one that we read or a copy of the model's own."""
    layer = layer_of(names, name)
    return layer is not None and 0 <= layer - config.num_layers < config.num_mtp_layers


def mtp_shapes(config: ModelConfig) -> dict[str, Shape]:
    """The tensors of all modules: of each a block like the model's, and what joins it on.

    The input of a module is eh_proj [d, 2 * d] of a token's embedding, normed by enorm, and the hidden state before
    it, normed by hnorm; the model's head reads its output, normed by shared_head_norm.
    """
    return dict(_shapes(config))


def _shapes(config: ModelConfig) -> Iterator[tuple[str, Shape]]:
    hidden = config.hidden_size
    deeper = expected_shapes(replace(config, num_layers=config.num_layers + config.num_mtp_layers))
    for module in range(config.num_mtp_layers):
        block = f"layers.{config.num_layers + module}."
        parts = {name.removeprefix(block): shape for name, shape in deeper.items() if name.startswith(block)}
        parts |= {"enorm": (hidden,), "hnorm": (hidden,), "eh_proj": (hidden, 2 * hidden)}
        parts["shared_head_norm"] = (hidden,)
        yield from ((f"mtp.{module}.{part}", shape) for part, shape in parts.items())
