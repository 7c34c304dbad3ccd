"""A layer's tensors with rows and columns multiplied: until somebody rounds them, the same model in other numbers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from tailrace.ops.packed import PackedTensor, from_float32
from tailrace.ops.reference_math import Array
from tailrace.quantizing.folding import Fold
from tailrace.quantizing.source import Place, Source
from tailrace.weights.stored import FileTensor, Shape

__all__ = ["Scaled", "Scaling"]


@dataclass(frozen=True, slots=True)
class Scaled:
    """A file's tensor times `by_row` [rows] and `by_column` [matrices, columns]; a vector has rows alone."""

    whole: FileTensor
    by_row: Array
    by_column: Array

    @property
    def shape(self) -> Shape:
        return self.whole.shape

    @property
    def stored_format(self) -> str:
        return "f32"

    @property
    def where(self) -> str:
        return self.whole.where

    @property
    def format(self) -> None:
        """It is read as float32."""

    @property
    def has_half_scales(self) -> bool:
        """It has none."""
        return True

    def packed(self) -> PackedTensor:
        if len(self.shape) == 1:
            return from_float32(self.whole.packed().dequantize() * self.by_row)
        matrix = self.as_matrix()
        return from_float32(matrix.rows(0, matrix.shape[0]).reshape(self.shape))

    def rows(self, begin: int, end: int) -> Array:
        height = len(self.by_row) // len(self.by_column)
        of_matrix = self.by_column[np.arange(begin, end) // height]
        scaled: Array = self.whole.rows(begin, end) * self.by_row[begin:end, None] * of_matrix
        return scaled

    def as_matrix(self) -> "Scaled":
        return replace(self, whole=self.whole.as_matrix())

    def check(self) -> None:
        """The whole was checked when it was found."""

    def release(self) -> None:
        self.whole.release()


@dataclass(slots=True)
class Scaling:
    """What rows and columns of our weights are multiplied by: by weight and first row, by weight and matrix."""

    rows: dict[tuple[str, int], Array] = field(default_factory=dict)
    columns: dict[tuple[str, int], Array] = field(default_factory=dict)

    def add(self, fold: Fold, scales: Array) -> None:
        for place in fold.divided:
            self.rows[place] = (1 / scales).astype(np.float32)
        for place in fold.multiplied:
            self.columns[place] = scales[fold.columns]
        for weight in fold.turned:
            self.rows[weight, 0] = scales

    def scaled(self, source: Source, names: Sequence[str]) -> dict[str, FileTensor]:
        """Of the named tensors of the file those that change."""
        return dict(self._scaled(source, {name: source.places[name] for name in names}))

    def _scaled(self, source: Source, places: Mapping[str, Place]) -> Iterator[tuple[str, FileTensor]]:
        touched = {weight for weight, _ in (*self.rows, *self.columns)}
        for name, place in places.items():
            if place.weight in touched:
                tensor = source.tensors[name]
                by_row = self._by_row(
                    source, place, prod(tensor.shape[:-1]) if len(tensor.shape) > 1 else tensor.shape[0]
                )
                yield name, Scaled(tensor, by_row, self._by_column(place, tensor.shape[-1]))

    def _by_row(self, source: Source, place: Place, num_rows: int) -> Array:
        """Of a file's tensor: the rows of ours from some on, or, of kv_b, those for values among those for keys."""
        first, out = place.first * (num_rows // place.count), np.ones(num_rows, np.float32)
        sizes = source.config.latent
        for (weight, begin), factors in self.rows.items():
            if weight != place.weight:
                continue
            if place.role == "v_b" and sizes is not None and len(factors) < num_rows:
                heads = out.reshape(-1, sizes.plain_dim + sizes.value_dim)
                heads[:, sizes.plain_dim :] = factors.reshape(-1, sizes.value_dim)
            elif place.role == "k_b":
                out[:] = np.tile(factors, num_rows // len(factors))
            elif first <= begin < first + num_rows:
                out[begin - first : begin - first + len(factors)] = factors
        return out

    def _by_column(self, place: Place, num_columns: int) -> Array:
        ones = np.ones(num_columns, np.float32)
        return np.stack([self.columns.get((place.weight, place.first + number), ones) for number in range(place.count)])
