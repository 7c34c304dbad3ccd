"""How the matrices of a Hugging Face directory were quantised, as its quantization_config says.

A scheme makes of several tensors of a file (codes, scales, zero points) the one matrix that they stand for, under the
name that it has in a directory that is not quantised. Whoever reads tensors by name knows nothing of schemes.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.weights.fields import Fields
from tailrace.weights.quantized.awq import read_awq
from tailrace.weights.quantized.compressed import read_compressed
from tailrace.weights.quantized.fp8 import read_fp8
from tailrace.weights.quantized.gptq import read_gptq
from tailrace.weights.safetensors import SafetensorsTensor
from tailrace.weights.stored import FileTensor

__all__ = ["SETTINGS", "Plain", "Scheme", "UnknownScheme", "read_scheme"]

SETTINGS = "quantization_config"
_CODES = ".qweight"


class UnknownScheme(UnsupportedModel):
    """A method that nobody here reads."""


class Scheme(Protocol):
    """One way of quantising, with its settings."""

    def compose(self, tensors: Mapping[str, SafetensorsTensor]) -> dict[str, FileTensor]:
        """The tensors of a directory by the names of one that is not quantised.

        What it is made of is found and checked here: presence, dtype, shape. Raises CheckpointError or
        UnsupportedModel, naming file, tensor and reason. Values are read, and checked, when they are asked for.
        """
        ...


class Plain:
    """Nothing is quantised."""

    def compose(self, tensors: Mapping[str, SafetensorsTensor]) -> dict[str, FileTensor]:
        """Raises CheckpointError when something is after all, and nobody says how."""
        for name, tensor in tensors.items():
            if name.endswith(_CODES):
                raise CheckpointError(
                    f"{tensor.where} is quantised, and config.json has no {SETTINGS} that says how; "
                    "fetch the model's settings again"
                )
        return dict(tensors)


# By quant_method; each is given the table of settings.
_SCHEMES: Mapping[str, Callable[[Fields], Scheme]] = {
    "awq": read_awq,
    "compressed-tensors": read_compressed,
    "fp8": read_fp8,
    "gptq": read_gptq,
}


def read_scheme(settings: Fields) -> Scheme:
    """The scheme of a config.json. Raises UnknownScheme, or what a scheme's reader raises."""
    if not settings.has(SETTINGS):
        return Plain()
    table = settings.table(SETTINGS)
    method = table.text("quant_method", "")
    if method not in _SCHEMES:
        how = f"by method {method[:60]!r}" if method else f"by a method that {SETTINGS} does not name (quant_method)"
        raise UnknownScheme(f"{settings.source}: weights quantised {how} are not supported")
    return _SCHEMES[method](table)
