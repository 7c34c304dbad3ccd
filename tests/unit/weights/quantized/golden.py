"""What other packages read out of small files that they have written: scripts/oracle/compressed_tensors_layouts.py."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tailrace.weights.safetensors import SafetensorsTensor, read_safetensors

__all__ = ["MODULE", "configs", "expected", "stored"]

MODULE = "model.layers.0.mlp.up_proj"
_DATA = Path(__file__).parent / "data"


@cache
def configs() -> dict[str, dict[str, Any]]:
    """The quantization_config of each case."""
    loaded: dict[str, dict[str, Any]] = json.loads((_DATA / "compressed_tensors.json").read_text(encoding="utf-8"))
    return loaded


@cache
def _all() -> dict[str, SafetensorsTensor]:
    return read_safetensors(_DATA / "compressed_tensors.safetensors")


def stored(case: str) -> dict[str, SafetensorsTensor]:
    """The tensors of one case by their names in a model's file."""
    return {
        name.removeprefix(f"{case}/"): tensor for name, tensor in _all().items() if name.startswith(f"{case}/{MODULE}.")
    }


def expected(case: str) -> tuple[str, NDArray[Any]]:
    """The dtype in which the package computes, and the values; of bfloat16 the bits."""
    tensor = _all()[f"{case}/expected"]
    return tensor.stored_format, tensor.bits()
