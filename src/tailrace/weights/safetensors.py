"""The safetensors container: a JSON head of bounded size, then the data. Read from mapped files, none of it trusted."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.ops.packed import PackedTensor, WeightFormat
from tailrace.ops.raw import FloatForm, RawMatrix, RawParts
from tailrace.weights.mapped import MappedFile, map_file

__all__ = ["SafetensorsTensor", "read_safetensors"]

_MAX_HEAD_BYTES = 100_000_000
_LENGTH_BYTES = 8
_MAX_DIMENSIONS = 8
_MAX_SEPARATORS = 1 << 22  # commas and colons in a head: of 2^18 tensors, each with a dozen and some

_READABLE: Mapping[str, tuple[FloatForm, str]] = {
    "F32": ("f32", "<f4"),
    "F16": ("f16", "<f2"),
    "BF16": ("bf16", "<u2"),
}


# What is no weight by itself, but part of one: numbers of as many bits, fp8 among them.
_PARTS: Mapping[str, str] = {
    "I8": "i1",
    "U8": "u1",
    "I32": "<i4",
    "I64": "<i8",
    "F8_E4M3": "u1",
    "F8_E8M0": "u1",
    **{name: dtype for name, (_, dtype) in _READABLE.items()},
}


class _Entry(msgspec.Struct):
    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


@dataclass(frozen=True, slots=True)
class SafetensorsTensor:
    """One tensor of a safetensors file; `begin` and `end` in bytes from the start of `file`."""

    file: MappedFile
    name: str
    shape: tuple[int, ...]
    stored_format: str
    begin: int
    end: int

    @property
    def where(self) -> str:
        return f"{self.file.path}: tensor {self.name!r}"

    @property
    def format(self) -> WeightFormat | None:
        """The packed format of the stored values."""
        return _READABLE[self.stored_format][0]

    @property
    def has_half_scales(self) -> bool:
        """It has none."""
        return True

    def check(self) -> None:
        """Raises UnsupportedModel for a dtype that is no weight's, CheckpointError when size and shape disagree."""
        if self.stored_format not in _READABLE:
            raise UnsupportedModel(f"{self.where} has dtype {self.stored_format}; supported: {', '.join(_READABLE)}")
        self._check_size()

    def check_part(self, dtypes: tuple[str, ...], shape: tuple[int, ...]) -> None:
        """As `check`, for a tensor that is part of a weight: of one of these dtypes, of this shape."""
        if self.stored_format not in dtypes:
            raise UnsupportedModel(f"{self.where} has dtype {self.stored_format}; supported: {', '.join(dtypes)}")
        if self.shape != shape:
            raise CheckpointError(f"{self.where} has shape {list(self.shape)}, what belongs to it needs {list(shape)}")
        self._check_size()

    def _check_size(self) -> None:
        wanted = math.prod(self.shape) * np.dtype(_PARTS[self.stored_format]).itemsize
        if self.end - self.begin != wanted:
            raise CheckpointError(f"{self.where} has {self.end - self.begin} bytes, its shape needs {wanted}")

    def as_matrix(self) -> Self:
        """The matrices of a tensor [count, rows, columns] one below the other."""
        return replace(self, shape=(math.prod(self.shape[:-1]), self.shape[-1]))

    def cut(self, begin: int, end: int) -> Self:
        """Rows [begin, end) of a matrix."""
        row_bytes = (self.end - self.begin) // self.shape[0]
        first = self.begin + begin * row_bytes
        return replace(self, shape=(end - begin, *self.shape[1:]), begin=first, end=first + (end - begin) * row_bytes)

    def bits(self) -> NDArray[Any]:
        """The stored numbers, a view; bfloat16 and fp8 as unsigned integers of their width."""
        dtype = np.dtype(_PARTS[self.stored_format])
        return self.file.array(dtype, math.prod(self.shape), self.begin).reshape(self.shape)

    def packed(self) -> PackedTensor:
        name, dtype = _READABLE[self.stored_format]
        values = self.file.array(np.dtype(dtype), math.prod(self.shape), self.begin)
        return PackedTensor(self.shape, name, values.reshape(self.shape))

    def rows(self, begin: int, end: int) -> NDArray[np.float32]:
        """Float32 values of rows [begin, end) of a matrix."""
        return self.packed().rows(np.arange(begin, end))

    def raw(self) -> RawParts | None:
        form = _READABLE[self.stored_format][0]
        return [RawMatrix.of_floats(form, self.packed().values)] if len(self.shape) == 2 else None

    def read_ahead(self) -> None:
        self.file.read_ahead((self.begin, self.end))

    def release(self) -> None:
        self.file.release((self.begin, self.end))


def read_safetensors(path: Path) -> dict[str, SafetensorsTensor]:
    """The tensors of one file by name. Raises CheckpointError when the bytes are wrong."""
    file = map_file(path)
    head_end, entries = _read_head(file)
    tensors = {}
    for name, entry in entries.items():
        begin, end = (head_end + offset for offset in entry.data_offsets)
        if not head_end <= begin <= end or len(entry.shape) > _MAX_DIMENSIONS or any(size < 0 for size in entry.shape):
            raise _damaged(path, f"tensor {name!r} cannot have offsets {entry.data_offsets} and shape {entry.shape}")
        if end > file.size:
            raise CheckpointError(
                f"{path}: the file ends at byte {file.size}, tensor {name!r} at {end}: "
                "the file is truncated; fetch it again"
            )
        tensors[name] = SafetensorsTensor(file, name, tuple(entry.shape), entry.dtype, begin, end)
    _check_overlaps(path, tensors)
    return tensors


def _read_head(file: MappedFile) -> tuple[int, dict[str, _Entry]]:
    """The end of the head, where offsets count from, and its entries."""
    length = int.from_bytes(file.mapping[:_LENGTH_BYTES], "little")
    head_end = _LENGTH_BYTES + length
    if file.size < _LENGTH_BYTES or length > _MAX_HEAD_BYTES:
        raise CheckpointError(f"{file.path}: not a safetensors file (a head of {length} bytes)")
    if head_end > file.size:
        raise _damaged(file.path, f"the file ends at byte {file.size}, inside the head; fetch it again")
    head = file.mapping[_LENGTH_BYTES:head_end]
    if head.count(b",") + head.count(b":") > _MAX_SEPARATORS:
        raise _damaged(file.path, "its head has more entries than any model has tensors")
    try:
        table = msgspec.json.decode(head, type=dict[str, msgspec.Raw])
        table.pop("__metadata__", None)
        _check_duplicates(file.path, head, len(table))
        return head_end, {name: msgspec.json.decode(entry, type=_Entry) for name, entry in table.items()}
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise _damaged(file.path, f"its head is not what it must be: {error}") from error


def _check_duplicates(path: Path, head: bytes, num_entries: int) -> None:
    """Of two entries of one name a table keeps the last. Only a head with too many offsets is read again for them."""
    if head.count(b'"data_offsets"') <= num_entries:
        return

    def table(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _damaged(path, f"its head has {name[:80]!r} twice")
            seen.add(name)

    json.loads(head, object_pairs_hook=table, strict=False)


def _check_overlaps(path: Path, tensors: Mapping[str, SafetensorsTensor]) -> None:
    by_place = sorted(tensors.values(), key=lambda tensor: (tensor.begin, tensor.end))
    for before, after in pairwise(by_place):
        if before.end > after.begin:
            raise _damaged(path, f"tensors {before.name!r} and {after.name!r} overlap")


def _damaged(path: Path, reason: str) -> CheckpointError:
    return CheckpointError(f"{path}: damaged safetensors file: {reason}")
