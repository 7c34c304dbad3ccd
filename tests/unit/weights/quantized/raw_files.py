"""Safetensors files of any dtype, written by the format's definition: numpy knows no fp8, and no bfloat16."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.weights.safetensors import SafetensorsTensor, read_safetensors
from tests.unit.weights.model_files import to_bf16, write_stored

__all__ = ["Raw", "bf16", "e4m3", "raw", "read_back", "write_raw", "write_raw_directory"]

_DTYPES = {"<f8": "F64", "<f4": "F32", "<f2": "F16", "|i1": "I8", "|u1": "U8", "<i4": "I32", "<i8": "I64"}


@dataclass(frozen=True, slots=True)
class Raw:
    """One tensor as a file holds it."""

    dtype: str
    array: NDArray[Any]


def raw(array: NDArray[Any], dtype: str | None = None) -> Raw:
    """`dtype` where it is not the array's own: of fp8 and bfloat16 there are bits alone."""
    return Raw(dtype or _DTYPES[array.dtype.str], array)


def e4m3(codes: NDArray[np.uint8]) -> Raw:
    return Raw("F8_E4M3", codes)


def bf16(values: NDArray[np.float32]) -> Raw:
    return Raw("BF16", to_bf16(values))


def write_raw(path: Path, tensors: Mapping[str, Raw]) -> None:
    head: dict[str, Any] = {}
    begin = 0
    for name, tensor in tensors.items():
        end = begin + tensor.array.nbytes
        head[name] = {"dtype": tensor.dtype, "shape": list(tensor.array.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(head).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(np.ascontiguousarray(tensor.array).tobytes())


def read_back(path: Path, tensors: Mapping[str, Raw]) -> dict[str, SafetensorsTensor]:
    """The same as tensors of a file."""
    write_raw(path, tensors)
    return read_safetensors(path)


def write_raw_directory(directory: Path, settings: Mapping[str, Any], tensors: Mapping[str, Raw]) -> None:
    write_stored(directory, settings, {})
    write_raw(directory / "model.safetensors", tensors)
