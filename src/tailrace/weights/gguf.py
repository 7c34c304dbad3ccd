"""The GGUF container: metadata and tensor infos of a mapped file, none of it trusted. What they mean is not known here.

header    "GGUF", version, number of tensors, number of metadata entries
metadata  key, type, value; arrays carry their element type and count
infos     name, dimensions (fastest first), block type, offset from the start of the data
data      aligned to general.alignment
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.weights.block_types import BLOCK_TYPES, BlockType
from tailrace.weights.mapped import MappedFile, Span, map_file

__all__ = ["GgufFile", "StringArray", "TensorInfo", "read_gguf"]

_MAX_ENTRIES = 1 << 16
_MAX_TENSORS = 1 << 18
_MAX_ELEMENTS = 1 << 22  # of one metadata array; the largest vocabularies have 2^18 tokens
_MAX_HEAD_BYTES = 1 << 28  # all that is read into memory at once
_MAX_NAME_BYTES = 1 << 16
_MAX_STRING_BYTES = 1 << 26
_MAX_DIMENSIONS = 4
_DEFAULT_ALIGNMENT = 32

_SCALARS = ("B", "b", "H", "h", "I", "i", "f", "?", None, None, "Q", "q", "d")  # by value type
_STRING, _ARRAY = 8, 9
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True, repr=False)
class StringArray(Sequence[str]):
    """Strings of a metadata array, decoded when asked for: only the text side needs a vocabulary.

    `raw` holds an 8-byte length before each string; string i ends at `ends[i]`. Bytes that are not UTF-8 are replaced.
    """

    raw: bytes
    ends: NDArray[np.int64]

    def __repr__(self) -> str:
        return f"<{len(self)} strings>"

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = range(len(self))[index]
        begin = int(self.ends[position - 1]) if position else 0
        return self._text(begin, int(self.ends[position]))

    def __iter__(self) -> Iterator[str]:
        begin = 0
        for end in self.ends.tolist():
            yield self._text(begin, end)
            begin = end

    def _text(self, begin: int, end: int) -> str:
        return self.raw[begin + _LENGTH.size : end].decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where a tensor lies: `shape` slowest dimension first, `begin` in bytes from the start of `file`."""

    file: MappedFile
    name: str
    shape: tuple[int, ...]
    type: BlockType
    begin: int

    @property
    def num_bytes(self) -> int:
        rows = 1
        for size in self.shape[:-1]:
            rows *= size
        return rows * (self.shape[-1] // self.type.num_values * self.type.num_bytes)

    @property
    def span(self) -> Span:
        return self.begin, self.begin + self.num_bytes


@dataclass(frozen=True, slots=True)
class GgufFile:
    """What a GGUF file says. Metadata values are int, float, bool, str, numpy arrays or a StringArray."""

    file: MappedFile
    metadata: dict[str, Any]
    tensors: dict[str, TensorInfo]


def read_gguf(path: Path) -> GgufFile:
    """Read the head of a GGUF file; the tensors stay where they are.

    Raises CheckpointError when the bytes are wrong, UnsupportedModel for a version or block type not known here.
    """
    file = map_file(path)
    with memoryview(file.mapping) as view:
        cursor = _Cursor(path, view)
        num_tensors, num_entries = _read_counts(cursor)
        metadata = dict(_read_metadata(cursor, num_entries))
        alignment = _alignment(path, metadata)
        infos = [_read_info(cursor, index) for index in range(num_tensors)]
        data_begin = -(-cursor.position // alignment) * alignment
    return GgufFile(file, metadata, _placed(file, infos, data_begin, alignment))


class _Cursor:
    """A place in the file that only moves forward and never leaves it; `where` names it in complaints."""

    def __init__(self, path: Path, view: memoryview) -> None:
        self.path = path
        self.view = view
        self.position = 0
        self.where = "the header"

    def scalar(self, code: str) -> Any:
        packing = struct.Struct("<" + code)
        (value,) = packing.unpack(self.take(packing.size))
        return value

    def take(self, num_bytes: int) -> memoryview:
        end = self.position + num_bytes
        if end > len(self.view):
            raise self.error(f"the file ends at byte {len(self.view)}, inside {self.where}; fetch it again")
        if end > _MAX_HEAD_BYTES:
            raise self.error(f"{self.where} ends at byte {end}, at most {_MAX_HEAD_BYTES} are allowed before the data")
        piece = self.view[self.position : end]
        self.position = end
        return piece

    def text(self, max_bytes: int) -> str:
        length = self.bounded(_LENGTH.size, max_bytes, "a string of bytes")
        return bytes(self.take(length)).decode("utf-8", "replace")

    def bounded(self, width: int, limit: int, what: str) -> int:
        """A count that is refused above `limit`: no loop or buffer is sized by a number nobody checked."""
        value = int.from_bytes(self.take(width), "little")
        if value > limit:
            raise self.error(f"{self.where} claims {what}: {value}, at most {limit} are allowed")
        return value

    def error(self, reason: str) -> CheckpointError:
        return CheckpointError(f"{self.path}: damaged GGUF file: {reason}")


def _read_counts(cursor: _Cursor) -> tuple[int, int]:
    if bytes(cursor.take(4)) != b"GGUF":
        raise CheckpointError(f"{cursor.path}: not a GGUF file (it does not begin with 'GGUF')")
    version = cursor.scalar("I")
    if version not in (2, 3):
        known = "2 and 3, little endian, are known; convert the file again with a current llama.cpp"
        raise UnsupportedModel(f"{cursor.path}: GGUF version {version:#x}: {known}")
    return cursor.bounded(8, _MAX_TENSORS, "tensors"), cursor.bounded(8, _MAX_ENTRIES, "metadata entries")


def _read_metadata(cursor: _Cursor, num_entries: int) -> Iterator[tuple[str, Any]]:
    seen: set[str] = set()
    for index in range(num_entries):
        cursor.where = f"metadata entry {index}"
        key = cursor.text(_MAX_NAME_BYTES)
        cursor.where = f"metadata entry {key[:80]!r}"
        if key in seen:
            raise cursor.error(f"{cursor.where} is there twice")
        seen.add(key)
        yield key, _read_value(cursor, cursor.scalar("I"))


def _read_value(cursor: _Cursor, value_type: int) -> Any:
    if value_type == _STRING:
        return cursor.text(_MAX_STRING_BYTES)
    if value_type == _ARRAY:
        return _read_array(cursor)
    return cursor.scalar(_scalar_code(cursor, value_type))


def _read_array(cursor: _Cursor) -> StringArray | NDArray[Any]:
    element_type = cursor.scalar("I")
    count = cursor.bounded(8, _MAX_ELEMENTS, "elements")
    if element_type == _STRING:
        return _read_strings(cursor, count)
    dtype = np.dtype("<" + _scalar_code(cursor, element_type))
    return np.frombuffer(bytes(cursor.take(count * dtype.itemsize)), dtype)


def _scalar_code(cursor: _Cursor, value_type: int) -> str:
    code = _SCALARS[value_type] if value_type < len(_SCALARS) else None
    if code is None:
        raise cursor.error(f"{cursor.where} has value type {value_type}, which GGUF does not know here")
    return code


def _read_strings(cursor: _Cursor, count: int) -> StringArray:
    """Walk over the lengths; this loop is most of the time it takes to open a file, so it does nothing else."""
    begin, position, view, unpack = cursor.position, cursor.position, cursor.view, _LENGTH.unpack_from
    ends = []
    try:
        for _ in range(count):
            position += _LENGTH.size + unpack(view, position)[0]
            ends.append(position)
    except (struct.error, OverflowError):
        position = len(view) + 1
    raw = bytes(cursor.take(position - begin))
    return StringArray(raw, np.asarray(ends, np.int64) - begin)


def _alignment(path: Path, metadata: dict[str, Any]) -> int:
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 8 or alignment & (alignment - 1) or alignment > 1 << 20:
        raise CheckpointError(
            f"{path}: damaged GGUF file: general.alignment {alignment!r} is not a power of two from 8"
        )
    return alignment


@dataclass(frozen=True, slots=True)
class _Info:
    """A tensor info as it is written: the offset counts from the start of the data."""

    name: str
    shape: tuple[int, ...]
    type: BlockType
    offset: int


def _read_info(cursor: _Cursor, index: int) -> _Info:
    cursor.where = f"tensor info {index}"
    name = cursor.text(_MAX_NAME_BYTES)
    cursor.where = f"the info of tensor {name[:80]!r}"
    num_dimensions = cursor.bounded(4, _MAX_DIMENSIONS, "dimensions")
    shape = tuple(cursor.scalar("Q") for _ in range(num_dimensions))[::-1]
    type_id, offset = cursor.scalar("I"), cursor.scalar("Q")
    block = BLOCK_TYPES.get(type_id)
    if block is None:
        raise UnsupportedModel(f"{cursor.path}: tensor {name!r} has block type {type_id}, which is not known here")
    if not shape or 0 in shape or shape[-1] % block.num_values:
        raise cursor.error(f"tensor {name!r} of type {block.name} cannot have shape {shape}")
    return _Info(name, shape, block, offset)


def _placed(file: MappedFile, infos: list[_Info], data_begin: int, alignment: int) -> dict[str, TensorInfo]:
    placed = [TensorInfo(file, info.name, info.shape, info.type, data_begin + info.offset) for info in infos]
    tensors = {info.name: info for info in placed}
    if len(tensors) < len(placed):
        raise CheckpointError(f"{file.path}: damaged GGUF file: two tensors have the same name")
    for info in placed:
        _check_place(file, info, alignment)
    by_place = sorted(placed, key=lambda info: info.begin)
    for before, after in pairwise(by_place):
        if before.span[1] > after.begin:
            raise CheckpointError(f"{file.path}: damaged GGUF file: {before.name!r} and {after.name!r} overlap")
    return tensors


def _check_place(file: MappedFile, info: TensorInfo, alignment: int) -> None:
    if info.begin % alignment:
        raise CheckpointError(f"{file.path}: damaged GGUF file: tensor {info.name!r} is not aligned to {alignment}")
    if info.span[1] > file.size:
        raise CheckpointError(
            f"{file.path}: the file ends at byte {file.size}, tensor {info.name!r} at {info.span[1]}: "
            "the file is truncated; fetch it again"
        )
