"""Writes random weights as a GGUF file, value by value the same: for other engines, and for `tailrace serve`."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGML_QUANT_SIZES, GGUFWriter
from gguf import GGMLQuantizationType as GgmlType
from numpy.typing import NDArray

from tailrace.errors import SetupError
from tailrace.models.config import ModelConfig
from tailrace.models.rope import rope_spec
from tailrace.ops.api import Progress
from tailrace.ops.packed import PackedTensor, WeightFormat
from tailrace.weights.gguf_rope import ROPE_FACTORS
from tailrace.weights.names import GGUF_NAMES, file_name, tensor_class
from tailrace.weights.synthetic import SyntheticTensors
from tailrace.weights.synthetic_metadata import GGUF_SCALINGS, gguf_architecture, gguf_metadata
from tailrace.weights.synthetic_vocabulary import BEGIN_ID_FROM_END, END_ID_FROM_END, synthetic_vocabulary

__all__ = ["write_gguf"]

# Offsets of 4-bit groups are -8 scales, as in Q4_0: of 4-bit types the one that llama.cpp is fastest with.
_TYPES: Mapping[WeightFormat, GgmlType] = {
    "f32": GgmlType.F32,
    "bf16": GgmlType.BF16,
    "q8": GgmlType.Q8_0,
    "q4": GgmlType.Q4_0,
}


@dataclass(frozen=True, slots=True)
class _Entry:
    """A tensor as the file lists it: `shape` slowest dimension first."""

    name: str
    shape: tuple[int, ...]
    type: GgmlType

    @property
    def num_bytes(self) -> int:
        num_values, num_bytes = GGML_QUANT_SIZES[self.type]
        return prod(self.shape) // num_values * num_bytes


def write_gguf(tensors: SyntheticTensors, path: Path, progress: Progress) -> None:
    """Write the model a tensor at a time; there is a file of this name once it is whole.

    Raises SetupError when the disk is full or does not let itself be written to.
    """
    entries = {name: _entry(tensors, name) for name in tensors}
    part = path.with_name(f"{path.name}.part")
    try:
        _refuse_too_large(path, sum(entry.num_bytes for entry in entries.values()))
        _write(part, tensors, entries, progress)
        part.replace(path)
    except OSError as error:
        raise SetupError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)


def _refuse_too_large(path: Path, num_bytes: int) -> None:
    free = shutil.disk_usage(path.parent).free
    if num_bytes > free:
        raise SetupError(f"{path} takes {num_bytes / 1e9:.1f} GB, and {free / 1e9:.1f} GB of the disk are free")


def _write(path: Path, tensors: SyntheticTensors, entries: Mapping[str, _Entry], progress: Progress) -> None:
    factors = _rope_factors(tensors.config)
    writer = _writer(path, tensors.config)
    try:
        for entry in (*_listed(factors), *entries.values()):
            writer.add_tensor_info(entry.name, entry.shape, np.dtype(np.float32), entry.num_bytes, entry.type)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        if factors is not None:
            writer.write_tensor_data(factors)
        for done, name in enumerate(entries, start=1):
            writer.write_tensor_data(_stored(tensors[name]))
            progress(done, len(entries))
    finally:
        writer.close()


def _writer(path: Path, config: ModelConfig) -> GGUFWriter:
    """A writer that knows all metadata."""
    writer, size = GGUFWriter(path, gguf_architecture(config)), config.vocab_size
    metadata = gguf_metadata(
        config, synthetic_vocabulary(size), bos_id=size - BEGIN_ID_FROM_END, eos_id=size - END_ID_FROM_END
    )
    for key, value in metadata.items():
        match value:
            case bool():
                writer.add_bool(key, value)
            case int():
                writer.add_uint32(key, value)
            case float():
                writer.add_float32(key, value)
            case str():
                writer.add_string(key, value)
            case _:
                writer.add_array(key, value)
    return writer


def _entry(tensors: SyntheticTensors, name: str) -> _Entry:
    return _Entry(file_name(GGUF_NAMES, name), _shape(tensors, name), _TYPES[tensors.format_of(name)])


def _shape(tensors: SyntheticTensors, name: str) -> tuple[int, ...]:
    """Experts, and the heads of latent attention, are matrices side by side: [count, rows, columns]."""
    config, shape, part = tensors.config, tensors.shapes[name], tensor_class(name)
    count = 0
    if config.mixture is not None and part.startswith("experts."):
        count = config.mixture.routing.num_experts
    elif part in ("k_b", "v_b"):
        count = config.num_heads
    return (count, shape[0] // count, shape[1]) if count else shape


def _rope_factors(config: ModelConfig) -> NDArray[np.float32] | None:
    """What each plain frequency is divided by, where no key says so."""
    scaling, rope = config.rope_scaling, rope_spec(config)
    if scaling is None or scaling.kind in GGUF_SCALINGS:
        return None
    plain = rope_spec(replace(config, rope_scaling=None))
    return np.divide(plain.inv_freq, rope.inv_freq, dtype=np.float32)


def _listed(factors: NDArray[np.float32] | None) -> list[_Entry]:
    return [] if factors is None else [_Entry(ROPE_FACTORS, factors.shape, GgmlType.F32)]


def _stored(tensor: PackedTensor) -> NDArray[Any]:
    """The bytes of a tensor: blocks begin with their scale."""
    if tensor.scales is None:
        return tensor.values
    scales = tensor.scales[..., None].view(np.uint8)
    return np.concatenate([scales, tensor.values.view(np.uint8)], axis=-1)
