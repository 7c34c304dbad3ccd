"""From an architecture's name to the function that records it: the one place a new model is entered."""

from collections.abc import Callable

from tailrace.errors import UnsupportedModel
from tailrace.models.config import Architecture, ModelConfig
from tailrace.models.decoder import record_decoder
from tailrace.ops.program import Program

__all__ = ["build_program"]

_RECORDERS: dict[Architecture, Callable[[ModelConfig], Program]] = {
    "llama": record_decoder,
    "qwen2": record_decoder,
    "qwen3": record_decoder,
    "deepseek": record_decoder,
    "deepseek_v2": record_decoder,
    "deepseek_v3": record_decoder,
    "deepseek_v32": record_decoder,
}


def build_program(config: ModelConfig) -> Program:
    """Record the model that `config` describes.

    Raises UnsupportedModel when the architecture is unknown or the config's sizes contradict each other.
    """
    record = _RECORDERS.get(config.architecture)
    if record is None:
        raise UnsupportedModel(f"architecture {config.architecture!r} is not known; known: {', '.join(_RECORDERS)}")
    try:
        return record(config)
    except (ValueError, ArithmeticError) as error:
        raise UnsupportedModel(f"the config of this {config.architecture} model contradicts itself: {error}") from error
