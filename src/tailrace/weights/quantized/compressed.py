"""The layouts of compressed-tensors: packed integers, bytes, 8- and 4-bit floats, each module by its group's settings.

How activations, keys and values would be quantised is left aside: ours are quantised as the server is told to.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.weights.fields import Fields
from tailrace.weights.quantized.bit_stream import stream_bytes
from tailrace.weights.quantized.coded import CodedTensor
from tailrace.weights.quantized.codes import Bytes, Codes, Float4s, Float8s, PackedIntegers
from tailrace.weights.quantized.companions import Companions, matrix_shape, scale_grid
from tailrace.weights.quantized.groups import Group, Groups, read_groups
from tailrace.weights.quantized.scales import FLOATS, POWERS, PackedZeros, Scales, Zeros
from tailrace.weights.safetensors import SafetensorsTensor
from tailrace.weights.stored import FileTensor

__all__ = ["CompressedTensors", "read_compressed"]

_PACKED, _WEIGHT, _SCALE = ".weight_packed", ".weight", ".weight_scale"
_CODES = ("I8", "U8", "I32", "F8_E4M3")
_WORD_BYTES = 4
_NO_SPARSITY = ("dense", "")
# What is none of the weights' codes, and would change answers: nothing here computes it.
_REFUSED = ("transform_config", "moe_sparsity_config")


@dataclass(frozen=True, slots=True)
class _Module:
    """One module of a file, by its name without an ending."""

    name: str
    group: Group
    stored: SafetensorsTensor
    companions: Companions

    def take(self, part: str) -> SafetensorsTensor:
        return self.companions.take(self.stored, f"{self.name}.{part}")

    def find(self, part: str) -> SafetensorsTensor | None:
        return self.companions.find(f"{self.name}.{part}")


@dataclass(frozen=True, slots=True)
class CompressedTensors:
    """Modules that have codes are read as their group says; all others are what they are."""

    groups: Groups

    def compose(self, tensors: Mapping[str, SafetensorsTensor]) -> dict[str, FileTensor]:
        companions = Companions(tensors)
        composed: dict[str, FileTensor] = {}
        for name, tensor in tensors.items():
            if (module := _coded_module(name, tensor)) is not None:
                group = self.groups.of(module, tensor.where)
                companions.taken.add(name)
                composed[module + _WEIGHT] = _READERS[group.format](_Module(module, group, tensor, companions))
        others = companions.others()
        for name in others:
            _refuse_uncompressed(name, tensors)
        return {**others, **composed}


def read_compressed(settings: Fields) -> CompressedTensors:
    """The scheme of a quantization_config of method "compressed-tensors"."""
    for key in _REFUSED:
        if settings.values.get(key):
            raise UnsupportedModel(f"{settings.source}: {key} is not supported")
    sparsity = settings.table("sparsity_config")
    if (format_ := sparsity.text("format", "")) not in _NO_SPARSITY:
        raise UnsupportedModel(f"{sparsity.source}: format {format_[:60]!r} is not supported; supported: dense")
    return CompressedTensors(read_groups(settings))


def _coded_module(name: str, tensor: SafetensorsTensor) -> str | None:
    """The module whose codes these are."""
    if name.endswith(_PACKED):
        return name.removesuffix(_PACKED)
    return name.removesuffix(_WEIGHT) if name.endswith(_WEIGHT) and tensor.stored_format in _CODES else None


def _refuse_uncompressed(name: str, tensors: Mapping[str, SafetensorsTensor]) -> None:
    """A model that was to be quantised, and was saved before: its numbers are not yet those of the result."""
    weight = tensors.get(name.removesuffix(_SCALE) + _WEIGHT) if name.endswith(_SCALE) else None
    if weight is not None:
        raise UnsupportedModel(
            f"{weight.where} has dtype {weight.stored_format} and scales beside it: the model was saved before it was "
            "compressed; save it compressed"
        )


def _pack_quantized(module: _Module) -> CodedTensor:
    shape = _shape_beside(module)
    group, stored = module.group, module.stored
    words = stream_bytes(shape[1], group.bits, _WORD_BYTES) // _WORD_BYTES
    stored.check_part(("I32",), (shape[0], words))
    return _integers(module, shape, PackedIntegers(stored, group.bits, shape[1]))


def _int_quantized(module: _Module) -> CodedTensor:
    shape = matrix_shape(module.stored)
    module.stored.check_part(("I8",), shape)
    return _integers(module, shape, Bytes(module.stored))


def _integers(module: _Module, shape: tuple[int, int], codes: Codes) -> CodedTensor:
    block = module.group.block_of(shape, module.stored.where)
    zeros = _zeros(module, shape, block)
    largest = codes.largest if zeros is None else 2 * codes.largest
    order = module.find("weight_g_idx") if module.group.strategy == "group" else None
    if order is not None:
        order.check_part(("I32", "I64"), shape[1:])
    return CodedTensor(shape, codes, _scales(module, shape, block, largest, dtypes=FLOATS), zeros, order)


def _zeros(module: _Module, shape: tuple[int, int], block: tuple[int, int]) -> Zeros | PackedZeros | None:
    group, name = module.group, "weight_zero_point"
    if group.is_symmetric:
        stored = module.find(name)
        if stored is not None:
            _check_no_zeros(stored, group)
        return None
    stored = module.take(name)
    if group.format == "pack-quantized" and group.strategy != "tensor":
        words = stream_bytes(shape[0], group.bits, _WORD_BYTES) // _WORD_BYTES
        stored.check_part(("I32",), (words, -(-shape[1] // block[1])))
        return PackedZeros(stored, group.bits)
    return Zeros(stored, scale_grid(stored, shape, block, ("I8",)))


def _check_no_zeros(stored: SafetensorsTensor, group: Group) -> None:
    """Older files have zeros beside symmetric weights."""
    stored.check_part(("I8",), stored.shape)
    if stored.bits().any():
        raise CheckpointError(f"{stored.where} is not zero everywhere, and {group.source} says symmetric")


def _float_quantized(module: _Module) -> CodedTensor:
    return _eights(module, FLOATS)


def _mxfp8_quantized(module: _Module) -> CodedTensor:
    return _eights(module, POWERS)


def _eights(module: _Module, dtypes: tuple[str, ...]) -> CodedTensor:
    shape = matrix_shape(module.stored)
    module.stored.check_part(("F8_E4M3",), shape)
    codes = Float8s(module.stored)
    block = module.group.block_of(shape, module.stored.where)
    return CodedTensor(shape, codes, _scales(module, shape, block, codes.largest, dtypes=dtypes))


def _mxfp4_quantized(module: _Module) -> CodedTensor:
    return _fours(module, "MXFP4", POWERS, None)


def _nvfp4_quantized(module: _Module) -> CodedTensor:
    divisor = module.take("weight_global_scale")
    divisor.check_part(("F32",), () if divisor.shape == () else (1,))
    if not np.isfinite(divisor.bits()).all() or not divisor.bits().all():
        raise CheckpointError(f"{divisor.where} is what scales are divided by, and is zero or not finite")
    return _fours(module, "NVFP4", ("F8_E4M3",), divisor)


def _fours(module: _Module, word: str, dtypes: tuple[str, ...], divisor: SafetensorsTensor | None) -> CodedTensor:
    rows, num_bytes = matrix_shape(module.stored)
    shape = (rows, 2 * num_bytes)
    module.stored.check_part(("U8",), (rows, num_bytes))
    codes = Float4s(module.stored, word)
    block = module.group.block_of(shape, module.stored.where)
    scales = _scales(module, shape, block, codes.largest, dtypes=dtypes, divisor=divisor)
    return CodedTensor(shape, codes, scales, unit=0.5)


def _scales(
    module: _Module,
    shape: tuple[int, int],
    block: tuple[int, int],
    largest: float,
    *,
    dtypes: tuple[str, ...],
    divisor: SafetensorsTensor | None = None,
) -> Scales:
    stored = module.take("weight_scale")
    return Scales(stored, scale_grid(stored, shape, block, dtypes), largest, divisor)


def _shape_beside(module: _Module) -> tuple[int, int]:
    """Of a matrix whose rows end within a word."""
    stored = module.take("weight_shape")
    stored.check_part(("I64", "I32"), (2,))
    rows, columns = (int(size) for size in stored.bits())
    if rows < 1 or columns < 1:
        raise CheckpointError(f"{stored.where} says {[rows, columns]}, which is no matrix's shape")
    return rows, columns


_READERS: Mapping[str, Callable[[_Module], CodedTensor]] = {
    "pack-quantized": _pack_quantized,
    "int-quantized": _int_quantized,
    "float-quantized": _float_quantized,
    "mxfp8-quantized": _mxfp8_quantized,
    "mxfp4-pack-quantized": _mxfp4_quantized,
    "nvfp4-pack-quantized": _nvfp4_quantized,
}
