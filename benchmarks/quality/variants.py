"""The default model in other weight formats, made from its dequantised values: what each format loses by itself."""

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import numpy as np

from tailrace.ops.packed import PackedTensor
from tailrace.weights.quantize import quantize_rows

__all__ = ["AS_SHIPPED", "VARIANTS", "ConvertedTensors", "bfloat16"]

AS_SHIPPED = "as shipped"

Convert = Callable[[PackedTensor], PackedTensor]


class ConvertedTensors(Mapping[str, PackedTensor]):
    """Matrices converted as they are asked for; vectors stay as they are."""

    def __init__(self, tensors: Mapping[str, PackedTensor], convert: Convert) -> None:
        self._tensors = tensors
        self._convert = convert

    def __getitem__(self, name: str) -> PackedTensor:
        tensor = self._tensors[name]
        return self._convert(tensor) if len(tensor.shape) == 2 else tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def bfloat16(tensor: PackedTensor) -> PackedTensor:
    """Rounded to nearest, ties to even."""
    bits = tensor.dequantize().view(np.uint32)
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)
    return PackedTensor(tensor.shape, "bf16", (rounded >> 16).astype(np.uint16))


def _as_is(tensor: PackedTensor) -> PackedTensor:
    return tensor


def _quantized(mode: Literal["int8", "int4"]) -> Convert:
    def convert(tensor: PackedTensor) -> PackedTensor:
        values = tensor.dequantize()
        packed, _ = quantize_rows(lambda begin, end: values[begin:end], tensor.shape, mode, "a matrix")
        return packed

    return convert


VARIANTS: dict[str, Convert] = {
    AS_SHIPPED: _as_is,
    "bf16": bfloat16,
    "int8": _quantized("int8"),
    "int4": _quantized("int4"),
}
