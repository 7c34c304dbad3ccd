"""Tensors made of others in a file: stacked, cut into bands, turned. Like those, read a few rows at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tailrace.ops.packed import GROUP, PackedTensor, WeightFormat, from_float32
from tailrace.ops.raw import RawParts, cut_parts
from tailrace.weights.stored import Shape, StoredTensor, raw_parts

__all__ = ["Bands", "Cut", "Stacked", "Turned", "cut", "read_ahead"]


@runtime_checkable
class _Cuttable(Protocol):
    """A tensor some of whose rows are a tensor too, at no cost."""

    def cut(self, begin: int, end: int) -> StoredTensor: ...


def cut(stored: StoredTensor, begin: int, end: int) -> StoredTensor:
    """Rows [begin, end) of a matrix."""
    if (begin, end) == (0, stored.shape[0]):
        return stored
    return stored.cut(begin, end) if isinstance(stored, _Cuttable) else Cut(stored, begin, end)


@dataclass(frozen=True, slots=True)
class Cut:
    """Rows [begin, end) of a matrix that has to be unpacked for them as a whole."""

    whole: StoredTensor
    begin: int
    end: int

    @property
    def shape(self) -> Shape:
        return self.end - self.begin, *self.whole.shape[1:]

    @property
    def stored_format(self) -> str:
        return self.whole.stored_format

    @property
    def where(self) -> str:
        return self.whole.where

    @property
    def format(self) -> WeightFormat | None:
        return self.whole.format

    @property
    def has_half_scales(self) -> bool:
        return self.whole.has_half_scales

    def packed(self) -> PackedTensor:
        return self.whole.packed().cut(self.begin, self.end)

    def rows(self, begin: int, end: int) -> NDArray[np.float32]:
        return self.whole.rows(self.begin + begin, self.begin + end)

    def raw(self) -> RawParts | None:
        parts = raw_parts(self.whole)
        return parts and cut_parts(parts, self.begin, self.end)

    def release(self) -> None:
        """Once the last rows are done."""
        if self.end == self.whole.shape[0]:
            self.whole.release()


@runtime_checkable
class _ReadAhead(Protocol):
    """A tensor of which it is known where in a file it lies."""

    def read_ahead(self) -> None: ...


def read_ahead(stored: StoredTensor) -> None:
    """Have the system begin to read a tensor, where that is simple."""
    if isinstance(stored, Stacked):
        for part in stored.parts:
            read_ahead(part)
    elif isinstance(stored, _ReadAhead):
        stored.read_ahead()


_DTYPES: dict[WeightFormat | None, str] = {"f32": "<f4", "f16": "<f2", "bf16": "<u2"}


@dataclass(frozen=True, slots=True)
class Stacked:
    """Matrices of one shape, one below the other: the experts of a layer, where each is a tensor of its own."""

    parts: Sequence[StoredTensor]

    @property
    def shape(self) -> Shape:
        rows, cols = self.parts[0].shape
        return len(self.parts) * rows, cols

    @property
    def stored_format(self) -> str:
        return "/".join(sorted({part.stored_format for part in self.parts}))

    @property
    def where(self) -> str:
        return f"{self.parts[0].where}, or one of the {len(self.parts) - 1} beside it,"

    @property
    def format(self) -> WeightFormat | None:
        formats = {part.format for part in self.parts}
        if len(formats) == 1:
            return formats.pop()
        return "f32" if formats <= _DTYPES.keys() else None

    @property
    def has_half_scales(self) -> bool:
        return all(part.has_half_scales for part in self.parts)

    def cut(self, begin: int, end: int) -> StoredTensor:
        """Rows [begin, end)."""
        height = self.parts[0].shape[0]
        pieces = [cut(self.parts[part], first, last) for part, first, last in _cuts(begin, end, height)]
        if len(pieces) == 1:
            return pieces[0]
        are_alike = len({piece.shape for piece in pieces}) == 1
        return Stacked(pieces) if are_alike else Cut(self, begin, end)

    def packed(self) -> PackedTensor:
        """Copied part by part, so that the files need not be in memory beside it."""
        format_ = self.format or "f32"
        whole = _empty(self.shape, format_)
        height = self.parts[0].shape[0]
        for number, part in enumerate(self.parts):
            packed = part.packed()
            _copy(packed if packed.format == format_ else from_float32(packed.dequantize()), whole, number * height)
            part.release()
        return whole

    def rows(self, begin: int, end: int) -> NDArray[np.float32]:
        height = self.parts[0].shape[0]
        return np.concatenate([self.parts[part].rows(first, last) for part, first, last in _cuts(begin, end, height)])

    def raw(self) -> RawParts | None:
        found = [raw_parts(part) for part in self.parts]
        if any(parts is None for parts in found):
            return None
        return [matrix for parts in found for matrix in parts or ()]

    def release(self) -> None:
        for part in self.parts:
            part.release()


@dataclass(frozen=True, slots=True)
class Bands:
    """Of every `stride` rows of a matrix, the `height` from `offset` on."""

    whole: StoredTensor
    stride: int
    offset: int
    height: int

    @property
    def shape(self) -> Shape:
        rows, cols = self.whole.shape
        return rows // self.stride * self.height, cols

    @property
    def stored_format(self) -> str:
        return self.whole.stored_format

    @property
    def where(self) -> str:
        return self.whole.where

    @property
    def format(self) -> WeightFormat | None:
        return self.whole.format

    @property
    def has_half_scales(self) -> bool:
        return self.whole.has_half_scales

    def cut(self, begin: int, end: int) -> StoredTensor:
        """Rows [begin, end): of whole bands, those of fewer bands."""
        first, last = begin // self.height, end // self.height
        if (first * self.height, last * self.height) != (begin, end):
            return Cut(self, begin, end)
        return replace(self, whole=cut(self.whole, first * self.stride, last * self.stride))

    def packed(self) -> PackedTensor:
        packed = self.whole.packed()
        return PackedTensor(
            self.shape,
            packed.format,
            self._bands(packed.values),
            None if packed.scales is None else self._bands(packed.scales),
            None if packed.offsets is None else self._bands(packed.offsets),
        )

    def rows(self, begin: int, end: int) -> NDArray[np.float32]:
        pieces = [
            self.whole.rows(band * self.stride + self.offset + first, band * self.stride + self.offset + last)
            for band, first, last in _cuts(begin, end, self.height)
        ]
        return np.concatenate(pieces)

    def raw(self) -> RawParts | None:
        match raw_parts(self.whole):
            case [whole]:
                begins = range(self.offset, whole.num_rows, self.stride)
                return [whole.rows(begin, begin + self.height) for begin in begins]
            case _:
                return None

    def release(self) -> None:
        self.whole.release()

    def _bands(self, values: NDArray[Any]) -> NDArray[Any]:
        bands = values.reshape(-1, self.stride, *values.shape[1:])[:, self.offset : self.offset + self.height]
        return bands.reshape(-1, *values.shape[1:])


@dataclass(frozen=True, slots=True)
class Turned:
    """A matrix [n * height, columns] with each of its n blocks transposed: [n * columns, height]."""

    whole: StoredTensor
    height: int

    @property
    def shape(self) -> Shape:
        rows, cols = self.whole.shape
        return rows // self.height * cols, self.height

    @property
    def stored_format(self) -> str:
        return self.whole.stored_format

    @property
    def where(self) -> str:
        return self.whole.where

    @property
    def format(self) -> WeightFormat | None:
        """Groups that share a scale run along the other side now: only floats stay what they are."""
        return self.whole.format if self.whole.format in _DTYPES else None

    @property
    def has_half_scales(self) -> bool:
        return True

    def cut(self, begin: int, end: int) -> StoredTensor:
        """Rows [begin, end): of whole blocks, those of fewer blocks."""
        cols = self.whole.shape[1]
        first, last = begin // cols, end // cols
        if (first * cols, last * cols) != (begin, end):
            return Cut(self, begin, end)
        return replace(self, whole=cut(self.whole, first * self.height, last * self.height))

    def packed(self) -> PackedTensor:
        packed = self.whole.packed()
        values = packed.dequantize() if self.format is None else packed.values
        blocks = values.reshape(-1, self.height, self.whole.shape[1]).swapaxes(1, 2)
        # Of a single block this would be a view, with the values of a row far apart.
        turned = np.ascontiguousarray(blocks.reshape(self.shape))
        return PackedTensor(self.shape, self.format or "f32", turned)

    def rows(self, begin: int, end: int) -> NDArray[np.float32]:
        pieces = [
            self.whole.rows(block * self.height, (block + 1) * self.height)[:, first:last].T
            for block, first, last in _cuts(begin, end, self.whole.shape[1])
        ]
        return np.concatenate(pieces)

    def release(self) -> None:
        self.whole.release()


def _empty(shape: Shape, format_: WeightFormat) -> PackedTensor:
    """Room for a matrix."""
    if format_ in _DTYPES:
        return PackedTensor(shape, format_, np.empty(shape, _DTYPES[format_]))
    groups = (shape[0], shape[1] // GROUP)
    scales = np.empty(groups, np.float32)
    if format_ == "q8":
        return PackedTensor(shape, format_, np.empty((*groups, GROUP), np.int8), scales)
    return PackedTensor(shape, format_, np.empty((*groups, GROUP // 2), np.uint8), scales, np.empty_like(scales))


def _copy(part: PackedTensor, whole: PackedTensor, begin: int) -> None:
    """Put the rows of `part` into those from `begin` on."""
    rows = slice(begin, begin + part.shape[0])
    whole.values[rows] = part.values
    for room, piece in ((whole.scales, part.scales), (whole.offsets, part.offsets)):
        if room is not None and piece is not None:
            room[rows] = piece


def _cuts(begin: int, end: int, height: int) -> Iterator[tuple[int, int, int]]:
    """Rows [begin, end) as (block, first, last) of blocks of `height` rows."""
    for block in range(begin // height, -(-end // height)):
        yield block, max(begin - block * height, 0), min(end - block * height, height)
