"""The one description of a weight, whatever file it came from: values, or codes with group scales.

Arrays may be strided views into a mapped file: nothing is copied until a back end repacks for its own kernels.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CheckpointError

__all__ = [
    "GROUP",
    "PackedTensor",
    "WeightFormat",
    "from_float32",
    "has_half_scales",
    "quantize_int4",
    "quantize_int8",
]

GROUP = 32  # inputs that share one scale

WeightFormat = Literal["f32", "f16", "bf16", "q8", "q4"]


@dataclass(frozen=True, slots=True)
class PackedTensor:
    """A weight of `shape` [out, in] (or [out] for a vector).

        f32, f16   values [out, in]
        bf16       values [out, in] as uint16, the upper half of the float32
        q8         codes int8  [out, in/32, 32], scales [out, in/32]              w = scale * code
        q4         codes uint8 [out, in/32, 16], scales and offsets [out, in/32]  w = scale * code + offset
                   low nibble of byte j is input j of the group, high nibble is input 16 + j

    Scales and offsets are float16 or float32.
    """

    shape: tuple[int, ...]
    format: WeightFormat
    values: NDArray[Any]  # values or codes
    scales: NDArray[np.floating[Any]] | None = None
    offsets: NDArray[np.floating[Any]] | None = None

    @property
    def num_bytes(self) -> int:
        """Bytes of the values with their scales, as stored."""
        parts = (self.values, self.scales, self.offsets)
        return sum(part.size * part.itemsize for part in parts if part is not None)

    def dequantize(self) -> NDArray[np.float32]:
        """The float32 values, shape `shape`: the truth that back ends are compared with."""
        return self.rows(np.arange(self.shape[0])) if len(self.shape) == 2 else _to_float32(self)

    def rows(self, indices: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Float32 values of some rows, [len(indices), in]."""
        return _to_float32(self._picked(indices, len(indices)))

    def cut(self, begin: int, end: int) -> "PackedTensor":
        """Rows [begin, end) of a matrix, as views."""
        return self._picked(slice(begin, end), end - begin)

    def _picked(self, rows: Any, count: int) -> "PackedTensor":
        return PackedTensor(
            shape=(count, *self.shape[1:]),
            format=self.format,
            values=self.values[rows],
            scales=None if self.scales is None else self.scales[rows],
            offsets=None if self.offsets is None else self.offsets[rows],
        )


def _to_float32(tensor: PackedTensor) -> NDArray[np.float32]:
    values = tensor.values
    if tensor.format == "bf16":
        return (values.astype(np.uint32) << 16).view(np.float32).reshape(tensor.shape)
    if tensor.format in ("f32", "f16"):
        return values.astype(np.float32).reshape(tensor.shape)
    if tensor.scales is None or (tensor.format == "q4" and tensor.offsets is None):
        raise CheckpointError(f"a {tensor.format} tensor of shape {tensor.shape} has no scales")
    scales = tensor.scales.astype(np.float32)[..., None]
    if tensor.format == "q8":
        return (values.astype(np.float32) * scales).reshape(tensor.shape)
    assert tensor.offsets is not None
    codes = np.concatenate([values & 15, values >> 4], axis=-1).astype(np.float32)
    return (codes * scales + tensor.offsets.astype(np.float32)[..., None]).reshape(tensor.shape)


def has_half_scales(tensor: PackedTensor) -> bool:
    """Whether scales and offsets lose nothing as float16, which halves what is read of them in each step."""
    return all(_is_half(part) for part in (tensor.scales, tensor.offsets) if part is not None)


def _is_half(values: NDArray[np.floating[Any]]) -> bool:
    if values.dtype == np.float16:
        return True
    with np.errstate(over="ignore"):
        return np.array_equal(values.astype(np.float16).astype(values.dtype), values)


def from_float32(values: NDArray[np.float32]) -> PackedTensor:
    """Wrap float32 values as they are."""
    return PackedTensor(shape=values.shape, format="f32", values=values)


def quantize_int8(values: NDArray[np.float32]) -> PackedTensor:
    """Symmetric 8 bit per group of 32: scale = amax / 127, round to nearest even."""
    groups = _grouped(values)
    scales = (np.abs(groups).max(axis=-1) / 127.0).astype(np.float16).astype(np.float32)
    codes = np.rint(groups / np.where(scales == 0, 1, scales)[..., None]).clip(-127, 127).astype(np.int8)
    return PackedTensor(shape=values.shape, format="q8", values=codes, scales=scales)


def quantize_int4(values: NDArray[np.float32]) -> PackedTensor:
    """Asymmetric 4 bit per group of 32: 16 levels from the smallest to the largest value."""
    groups = _grouped(values)
    low, high = groups.min(axis=-1), groups.max(axis=-1)
    scales = ((high - low) / 15.0).astype(np.float16).astype(np.float32)
    offsets = low.astype(np.float16).astype(np.float32) + np.float32(0)  # which of two zeros is less, nobody says
    steps = (groups - offsets[..., None]) / np.where(scales == 0, 1, scales)[..., None]
    codes = np.rint(steps).clip(0, 15).astype(np.uint8)
    packed = codes[..., :16] | (codes[..., 16:] << 4)
    return PackedTensor(shape=values.shape, format="q4", values=packed, scales=scales, offsets=offsets)


def _grouped(values: NDArray[np.float32]) -> NDArray[np.float32]:
    if values.ndim != 2 or values.shape[1] % GROUP:
        raise CheckpointError(f"cannot quantise shape {values.shape}: the inputs must be a multiple of {GROUP}")
    return values.reshape(values.shape[0], values.shape[1] // GROUP, GROUP)
