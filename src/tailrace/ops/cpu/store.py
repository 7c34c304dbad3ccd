"""The weights in native memory, by name, in the layout of the kernels: planned, given memory, and filled."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import cast

import numpy as np
import xxhash

from tailrace.errors import CheckpointError
from tailrace.ops import _native
from tailrace.ops.cpu.arrays import exportable, scales_as
from tailrace.ops.cpu.stages import KernelFormat
from tailrace.ops.packed import PackedTensor
from tailrace.ops.program import Weight
from tailrace.ops.source import ReadsAhead, WeightForm, WeightSource

__all__ = ["Piece", "WeightStore"]

_PIECE_VALUES = 1 << 22  # that are narrowed at once: 16 MiB in float32
_TILE_ROWS = 16


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows [begin, end) of a weight, which are those of the matrix `id` from `first_row` on."""

    weight: int  # its place in the order of weights
    name: str
    begin: int
    end: int
    id: int
    first_row: int


class WeightStore:
    """Packed weights by name. Those that are planned first are filled first, and said to be ready first."""

    def __init__(self, source: WeightSource) -> None:
        self._source = source
        self._ids: dict[str, list[int]] = {}
        self._places: dict[str, int] = {}  # in the order of weights
        self._forms: list[WeightForm] = []
        self._pairs: list[tuple[str, str]] = []  # that are interleaved
        self._lazy: set[str] = set()
        self.formats: dict[str, KernelFormat] = {}
        self.packed = _native.Weights()

    def plan(self, weight: Weight, num_matrices: int = 1, *, is_lazy: bool = False) -> None:
        """Make room for a weight. Its rows may be those of `num_matrices` equal matrices, one below the other.

        The matrices of a lazy one are not filled with all others, but each when somebody asks for it.
        Raises CheckpointError when it is missing or has another shape.
        """
        if weight.name not in self._source:
            raise CheckpointError(f"the checkpoint has no tensor {weight.name!r}, which the model needs")
        form = self._source.form(weight.name)
        if form.shape != weight.shape:
            raise CheckpointError(f"tensor {weight.name!r} has shape {form.shape}, the model needs {weight.shape}")
        self._places[weight.name] = len(self._forms)
        self._forms.append(form)
        if is_lazy:
            self._lazy.add(weight.name)
        if len(form.shape) == 1:
            self._ids[weight.name], self.formats[weight.name] = [self._vector(weight)], "f32"
            return
        format_ = _kernel_format(form)
        rows, cols = form.shape
        self.formats[weight.name] = format_
        self._ids[weight.name] = [
            self.packed.add_matrix(format_, rows // num_matrices, cols, is_lazy) for _ in range(num_matrices)
        ]

    def interleave(self, gate: Weight, up: Weight) -> None:
        """Let who reads both read one stream, if they have one format. While all is still being planned."""
        if self.formats[gate.name] == self.formats[up.name]:
            self._pairs.append((gate.name, up.name))
            for pair in zip(self.ids_of(gate), self.ids_of(up), strict=True):
                self.packed.interleave(*pair)

    def id_of(self, weight: Weight) -> int:
        (number,) = self._ids[weight.name]
        return number

    def ids_of(self, weight: Weight) -> list[int]:
        """The matrices that the weight's rows were cut into."""
        return self._ids[weight.name]

    def bytes_of(self, weight: Weight) -> int:
        """In the layout of the kernels."""
        if len(weight.shape) == 1:
            return weight.shape[0] * np.dtype(np.float32).itemsize
        return sum(map(self.packed.bytes_of, self._ids[weight.name]))

    def num_needed(self, weights: Iterable[Weight]) -> int:
        """How many have to be ready before all of these are."""
        return max((self._places[weight.name] + 1 for weight in weights), default=0)

    def bias(self, weights: Sequence[Weight], biases: Sequence[Weight | None]) -> int | None:
        """The biases side by side as one new vector, zeros where a weight has none."""
        if all(bias is None for bias in biases):
            return None
        parts = [
            np.zeros(weight.shape[0], np.float32) if bias is None else self._values(bias)
            for weight, bias in zip(weights, biases, strict=True)
        ]
        return self.packed.add_vector(np.concatenate(parts))

    def pieces(self) -> Iterator[Piece]:
        """All that has to be filled before anybody asks, in order."""
        for name, place in self._places.items():
            if len(self._forms[place].shape) == 2 and name not in self._lazy:
                for number in range(len(self._ids[name])):
                    yield from self._pieces(name, number)

    def read_ahead(self, weight: Weight, number: int) -> None:
        """One of the matrices that a weight's rows were cut into will soon be filled."""
        if isinstance(self._source, ReadsAhead):
            height = weight.shape[0] // len(self._ids[weight.name])
            self._source.read_ahead(weight.name, number * height, (number + 1) * height)

    def pieces_of(self, weight: Weight, number: int) -> Iterator[Piece]:
        """What fills one of the matrices that a weight's rows were cut into."""
        return self._pieces(weight.name, number)

    def _pieces(self, name: str, number: int) -> Iterator[Piece]:
        place, ids = self._places[name], self._ids[name]
        form = self._forms[place]
        height = form.shape[0] // len(ids)
        step = _rows_at_once(form) if form.is_narrowed else height
        for row in range(0, height, step):
            begin = number * height + row
            yield Piece(place, name, begin, begin + min(step, height - row), ids[number], row)

    def fill(self, num_threads: int, progress: Callable[[int, int], None] | None = None) -> None:
        """Fill the memory, in order. `progress` is told how many weights are whole, of how many.

        No more than a few pieces are on their way at once. Raises what the source raises.
        """
        total = len(self._forms)
        underway: deque[tuple[int, Future[None]]] = deque()

        def settle(limit: int) -> None:
            while len(underway) > limit:
                place, filled = underway.popleft()
                filled.result()
                self._say_ready(place, progress)

        with ThreadPoolExecutor(num_threads, "load") as pool:
            try:
                for piece in self.pieces():
                    settle(2 * num_threads)
                    underway.append((piece.weight, pool.submit(self.fill_piece, piece)))
                settle(0)
            finally:
                pool.shutdown(cancel_futures=True)
        self._say_ready(total, progress)

    @property
    def layout(self) -> str:
        """Names how the weights lie in memory."""
        words = [
            (name, len(self._ids[name]), self._forms[place].shape, self.formats[name], name in self._lazy)
            for name, place in self._places.items()
        ]
        return xxhash.xxh3_64_hexdigest(repr((words, self._pairs)).encode())

    @property
    def is_whole(self) -> bool:
        return self.packed.num_ready >= len(self._forms)

    def say_whole(self) -> None:
        """All weights are there."""
        self._say_ready(len(self._forms), None)

    def fill_piece(self, piece: Piece) -> None:
        """Take some rows from the source. May be called by several threads."""
        tensor = self._source.part(piece.name, piece.begin, piece.end)
        scales = np.float16 if self._forms[piece.weight].has_half_scales else np.float32
        self._put(piece, tensor, scales)
        self._source.release(piece.name, piece.begin, piece.end)

    def _say_ready(self, count: int, progress: Callable[[int, int], None] | None) -> None:
        """All weights before this one are whole."""
        if count > self.packed.num_ready:
            self.packed.set_ready(count)
            if progress is not None:
                progress(count, len(self._forms))

    def _put(self, piece: Piece, tensor: PackedTensor, scale_type: type[np.float16 | np.float32]) -> None:
        values = exportable(tensor.values)
        match tensor.format:
            case "q4":
                scales, offsets = scales_as(scale_type, tensor.scales), scales_as(scale_type, tensor.offsets)
                self.packed.fill_q4(piece.id, piece.first_row, values, scales, offsets)
            case "q8":
                self.packed.fill_q8(piece.id, piece.first_row, values, scales_as(scale_type, tensor.scales))
            case _:
                self.packed.fill_float(piece.id, piece.first_row, values)

    def _vector(self, weight: Weight) -> int:
        return self.packed.add_vector(self._values(weight))

    def _values(self, vector: Weight) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        (size,) = vector.shape
        return np.ascontiguousarray(self._source.part(vector.name, 0, size).dequantize())


def _kernel_format(form: WeightForm) -> KernelFormat:
    is_wide = form.format in ("q4", "q8") and not form.has_half_scales
    return cast(KernelFormat, f"{form.format} wide" if is_wide else form.format)


def _rows_at_once(form: WeightForm) -> int:
    return max(_PIECE_VALUES // form.shape[1] // _TILE_ROWS, 1) * _TILE_ROWS
