"""A model in other weight formats, made from its dequantised values: what each format loses by itself."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from tailrace.ops.packed import GROUP, PackedTensor, from_float32
from tailrace.weights.precision import Precision, Width, precision_class
from tailrace.weights.quantize import quantize_rows

__all__ = ["AS_SHIPPED", "BFLOAT16", "ConvertedTensors", "bfloat16", "read_variant"]

AS_SHIPPED = "as shipped"
BFLOAT16 = "bf16"

Convert = Callable[[str, PackedTensor], PackedTensor]  # a matrix by its name


class ConvertedTensors(Mapping[str, PackedTensor]):
    """Matrices converted as they are asked for; vectors stay as they are."""

    def __init__(self, tensors: Mapping[str, PackedTensor], convert: Convert) -> None:
        self._tensors = tensors
        self._convert = convert

    def __getitem__(self, name: str) -> PackedTensor:
        tensor = self._tensors[name]
        return self._convert(name, tensor) if len(tensor.shape) == 2 else tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def read_variant(words: str) -> Convert:
    """`as shipped`, `bf16`, or what `--quantize` takes, done to a file of float32 values.

    Raises SetupError for other words.
    """
    if words == AS_SHIPPED:
        return lambda _name, tensor: tensor
    if words == BFLOAT16:
        return lambda _name, tensor: bfloat16(tensor)
    precision = Precision.parse(words)
    return lambda name, tensor: _narrowed(tensor, precision.width(precision_class(name)))


def bfloat16(tensor: PackedTensor) -> PackedTensor:
    """Rounded to nearest, ties to even."""
    bits = tensor.dequantize().view(np.uint32)
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)
    return PackedTensor(tensor.shape, "bf16", (rounded >> 16).astype(np.uint16))


def _narrowed(tensor: PackedTensor, width: Width | None) -> PackedTensor:
    if width is None:
        return tensor
    values = tensor.dequantize()
    if width == "float" or tensor.shape[1] % GROUP:
        return from_float32(values)
    packed, _ = quantize_rows(lambda begin, end: values[begin:end], tensor.shape, width, "a matrix")
    return packed
