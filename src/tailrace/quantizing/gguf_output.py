"""A GGUF file with the metadata of another and its tensors, some of them rounded: written by the gguf package."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGML_QUANT_SIZES, GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType
from gguf import GGMLQuantizationType as GgmlType
from numpy.typing import NDArray

from tailrace.errors import CheckpointError, EngineError
from tailrace.ops.packed import PackedTensor
from tailrace.quantizing.grid import INT8, Grid
from tailrace.quantizing.output_place import refuse_too_large
from tailrace.quantizing.plan import KEPT, Target
from tailrace.quantizing.source import Made, Source
from tailrace.weights.gguf_blocks import GgufTensor
from tailrace.weights.gguf_parts import read_parts
from tailrace.weights.stored import FileTensor

__all__ = ["GgufOutput", "gguf_output"]

_ARCHITECTURE, _FILE_TYPE = "general.architecture", "general.file_type"
_QUANTIZATION_VERSION, _ALIGNMENT = "general.quantization_version", "general.alignment"
_OF_THIS_FILE = (_ARCHITECTURE, _FILE_TYPE, _QUANTIZATION_VERSION, "GGUF.", "split.")


class GgufOutput:
    """Takes the tensors of the plan in its order."""

    def __init__(self, writer: GGUFWriter, plan: Mapping[str, Target]) -> None:
        self._writer = writer
        self._plan = plan

    def write(self, name: str, tensor: FileTensor) -> None:
        self._writer.write_tensor_data(_data(self._plan[name], tensor))


@contextmanager
def gguf_output(path: Path, source: Source, plan: Mapping[str, Target]) -> Iterator[GgufOutput]:
    """Open `path`: head, metadata and tensor infos are written at once."""
    types = {name: _type(target, source.tensors[name]) for name, target in plan.items()}
    sizes = {name: _num_bytes(source.tensors[name].shape, kind) for name, kind in types.items()}
    refuse_too_large(path, sum(sizes.values()))
    is_int4 = any(isinstance(target, Grid) and target.bits == 4 for target in plan.values())
    writer = _writer(path, source.path, LlamaFileType.MOSTLY_Q4_1 if is_int4 else LlamaFileType.MOSTLY_Q8_0)
    try:
        for name, kind in types.items():
            shape = source.tensors[name].shape
            writer.add_tensor_info(name, shape, np.dtype(np.float32), sizes[name], kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        yield GgufOutput(writer, plan)
    finally:
        writer.close()


def _writer(path: Path, source: Path, file_type: LlamaFileType) -> GGUFWriter:
    """A writer that knows the source's metadata, each value with its type.

    Raises CheckpointError for metadata that the gguf package does not read.
    """
    head = read_parts(source).file.path  # the first of several parts has it
    try:
        fields = GGUFReader(head).fields
        writer = GGUFWriter(path, fields[_ARCHITECTURE].contents())
        for key, field in fields.items():
            if not key.startswith(_OF_THIS_FILE):
                is_array = field.types[0] == GGUFValueType.ARRAY
                writer.add_key_value(key, field.contents(), field.types[0], field.types[-1] if is_array else None)
    except (ValueError, KeyError) as error:
        raise CheckpointError(f"{head}: its metadata cannot be copied: {error}") from error
    if (alignment := fields.get(_ALIGNMENT)) is not None:
        writer.data_alignment = alignment.contents()
    writer.add_file_type(file_type)
    writer.add_quantization_version(2)
    return writer


def _type(target: Target, tensor: FileTensor) -> GgmlType:
    if isinstance(target, Grid):
        return GgmlType.Q8_0 if target == INT8 else GgmlType.Q4_1
    return GgmlType[tensor.stored_format] if target == KEPT else GgmlType.F32


def _num_bytes(shape: tuple[int, ...], kind: GgmlType) -> int:
    num_values, num_bytes = GGML_QUANT_SIZES[kind]
    return prod(shape) // num_values * num_bytes


def _data(target: Target, tensor: FileTensor) -> NDArray[Any]:
    if isinstance(target, Grid):
        if not isinstance(tensor, Made):
            raise EngineError(f"{tensor.where} was to be rounded and is not")
        return _blocks(tensor.tensor)
    if target == KEPT and isinstance(tensor, GgufTensor):
        info = tensor.info
        return info.file.array(np.uint8, info.num_bytes, info.begin)
    return tensor.packed().dequantize()


def _blocks(tensor: PackedTensor) -> NDArray[np.uint8]:
    """Blocks of Q8_0 or Q4_1: float16 scale, float16 offset if there is one, codes."""
    parts = [part for part in (tensor.scales, tensor.offsets) if part is not None]
    head = [part.astype("<f2")[..., None].view(np.uint8) for part in parts]
    return np.concatenate([*head, tensor.values.view(np.uint8)], axis=-1)
