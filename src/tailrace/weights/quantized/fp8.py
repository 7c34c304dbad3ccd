"""Matrices in 8-bit floats: DeepSeek's own blocks of 128 x 128 with a scale each, or one for a row or the whole."""

from collections.abc import Mapping
from dataclasses import dataclass

from tailrace.errors import UnsupportedModel
from tailrace.weights.fields import Fields
from tailrace.weights.quantized.coded import CodedTensor
from tailrace.weights.quantized.codes import Float8s
from tailrace.weights.quantized.companions import Companions, matrix_shape, scale_grid
from tailrace.weights.quantized.e4m3 import E4M3_LARGEST
from tailrace.weights.quantized.scales import FLOATS, Scales
from tailrace.weights.safetensors import SafetensorsTensor
from tailrace.weights.stored import FileTensor

__all__ = ["Fp8", "read_fp8"]

_CODES = "F8_E4M3"
_SCALES = (*FLOATS, "F8_E8M0")
_BLOCKS = "weight_block_size"
_MAX_BLOCK = 1 << 20
# Both multiply, whatever the longer name says. Files that know of no blocks have either.
_SCALE_NAMES = ("_scale_inv", "_scale")


@dataclass(frozen=True, slots=True)
class Fp8:
    """`block`: values that share a scale, [rows, columns]; None: the shape of the scales says it.

    Which modules were not converted (modules_to_not_convert) the files say themselves: those are in another dtype.
    """

    block: tuple[int, int] | None

    def compose(self, tensors: Mapping[str, SafetensorsTensor]) -> dict[str, FileTensor]:
        companions = Companions(tensors)
        composed: dict[str, FileTensor] = {
            name: self._matrix(name, tensor, companions)
            for name, tensor in tensors.items()
            if tensor.stored_format == _CODES
        }
        return {**companions.others(), **composed}

    def _matrix(self, name: str, stored: SafetensorsTensor, companions: Companions) -> CodedTensor:
        shape = matrix_shape(stored)
        stored.check_part((_CODES,), shape)
        scale = companions.take(stored, *(name + ending for ending in _SCALE_NAMES))
        block = self.block or (1 if scale.shape[:1] == shape[:1] else shape[0], shape[1])
        grid = scale_grid(scale, shape, block, _SCALES)
        return CodedTensor(shape, Float8s(stored), Scales(scale, grid, E4M3_LARGEST))


def read_fp8(settings: Fields) -> Fp8:
    """The scheme of a quantization_config of method "fp8"."""
    if (kind := settings.text("fmt", "e4m3")) not in ("e4m3", "float8_e4m3fn"):
        raise UnsupportedModel(f"{settings.source}: fmt {kind[:60]!r} is not supported; supported: e4m3")
    return Fp8(_block(settings))


def _block(settings: Fields) -> tuple[int, int] | None:
    block = settings.values.get(_BLOCKS)
    if block is None:
        return None
    if not isinstance(block, list) or len(block) != 2 or not all(_is_size(size) for size in block):
        raise settings.wrong(_BLOCKS, f"two integers between 1 and {_MAX_BLOCK}")
    return block[0], block[1]


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MAX_BLOCK
