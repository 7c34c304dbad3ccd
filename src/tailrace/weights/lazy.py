"""The tensors of a checkpoint by our names: read, converted and checked one at a time, when asked for, and not kept."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import sqrt
from threading import Lock

import numpy as np

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.models.config import ModelConfig
from tailrace.ops.packed import GROUP, PackedTensor, WeightFormat, from_float32
from tailrace.ops.source import WeightForm
from tailrace.weights.composed import Stacked, cut, read_ahead
from tailrace.weights.expected import expected_shapes
from tailrace.weights.finite import is_finite
from tailrace.weights.layer_settings import LayerSettings
from tailrace.weights.mtp import mtp_shapes
from tailrace.weights.precision import Precision, precision_class
from tailrace.weights.quantize import Mode, quantize_rows
from tailrace.weights.stored import FileTensors, MissingTensor, Shape, StoredTensor, raw_parts

__all__ = ["FindTensor", "LazyTensors", "lazy_tensors"]

FindTensor = Callable[[FileTensors, ModelConfig, str, Shape], StoredTensor]  # the tensor of our name, and its shape

_BITS: dict[WeightFormat, int] = {"f32": 32, "f16": 16, "bf16": 16, "q8": 8, "q4": 4}
_QUANTIZED_BITS: dict[Mode, int] = {"int8": 8, "int4": 4}


@dataclass(frozen=True)
class LazyTensors(Mapping[str, PackedTensor]):
    """Our names -> packed tensors. `errors` collects the relative RMS error of what had to be quantised."""

    stored: Mapping[str, StoredTensor]
    precision: Precision
    errors: dict[str, float] = field(default_factory=dict)
    _noted: dict[str, tuple[int, float]] = field(default_factory=dict, repr=False)  # parts, and their errors squared
    _noting: Lock = field(default_factory=Lock, repr=False)

    def __getitem__(self, name: str) -> PackedTensor:
        """Raises CheckpointError when the values are not finite, KeyError when the model has no such tensor."""
        stored = self.stored[name]
        mode = self._mode(name, stored)
        if mode is None:
            with np.errstate(all="ignore"):
                return _checked(stored, stored.packed())
        packed, self.errors[name] = quantize_rows(stored.rows, stored.shape, mode, stored.where, raw_parts(stored))
        stored.release()
        return packed

    @property
    def precision_words(self) -> str:
        """The precision of these tensors in words, the same for all that come to the same here."""
        return self.precision.weight_words(_classes(self.stored))

    def form(self, name: str) -> WeightForm:
        """How `part` gives a tensor, without reading it."""
        stored = self.stored[name]
        mode = self._mode(name, stored)
        if mode is None:
            return WeightForm(stored.shape, stored.format or "f32", stored.has_half_scales)
        return WeightForm(stored.shape, "q8" if mode == "int8" else "q4", is_narrowed=True)

    def part(self, name: str, begin: int, end: int) -> PackedTensor:
        """Rows [begin, end) of a matrix, or a whole vector. Raises CheckpointError when the values are not finite."""
        whole = self.stored[name]
        stored, mode = cut(whole, begin, end), self._mode(name, whole)
        if mode is not None:
            parts = raw_parts(stored)  # the caller has threads, one of which this is
            packed, error = quantize_rows(stored.rows, stored.shape, mode, stored.where, parts, num_threads=1)
            self._note(name, error)
            return packed
        with np.errstate(all="ignore"):
            packed = _checked(stored, stored.packed())
        # Of tensors side by side, each may have a format of its own.
        return packed if packed.format == (whole.format or "f32") else from_float32(packed.dequantize())

    def _note(self, name: str, error: float) -> None:
        """The error of a part: of equal parts of a tensor, all count alike."""
        with self._noting:
            count, squares = self._noted.get(name, (0, 0.0))
            self._noted[name] = count, squares = count + 1, squares + error**2
            self.errors[name] = sqrt(squares / count)

    def read_ahead(self, name: str, begin: int, end: int) -> None:
        """Have the system begin to read what will be asked for."""
        read_ahead(cut(self.stored[name], begin, end))

    def release(self, name: str, begin: int, end: int) -> None:
        """Give the memory back that the file took for what `part` gave."""
        cut(self.stored[name], begin, end).release()

    def __contains__(self, name: object) -> bool:
        """Without reading it, as a mapping would that is not told how."""
        return name in self.stored

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)

    @property
    def float_matrices(self) -> dict[str, WeightFormat]:
        """The matrices that are floats in memory, and how wide: as in the file, or float32 for other codes."""
        found: dict[str, WeightFormat] = {}
        for name, stored in self.stored.items():
            format_ = stored.format or "f32"
            if len(stored.shape) == 2 and self._mode(name, stored) is None and format_ in ("f32", "f16", "bf16"):
                found[name] = format_
        return found

    def _mode(self, name: str, stored: StoredTensor) -> Mode | None:
        """How to quantise on the way in; None: the tensor stays as it is."""
        width = self.precision.width(precision_class(name))
        if width == "float" or len(stored.shape) != 2 or stored.shape[1] % GROUP:
            return None
        if stored.format is None:
            return width or "int8"
        return width if width and _QUANTIZED_BITS[width] < _BITS[stored.format] else None


def lazy_tensors(
    files: FileTensors,
    config: ModelConfig,
    find: FindTensor,
    settings: LayerSettings,
    *,
    is_unused: Callable[[str], bool],
    precision: Precision,
    mtp: bool,
) -> LazyTensors:
    """Match the tensors in `files` with what `config` asks for: all there, of the right shape, of a readable type.

    A tensor that nobody reads is refused, but for names that `is_unused` knows: the model would run without it, and
    answer wrongly. Complaints name those of the `settings` that ask for something else. `mtp` asks for the weights of
    multi-token prediction too. A class that `precision` names and the model lacks is refused.
    """
    shapes = _shapes(files.source, config, mtp)
    precision.check_named(_classes(shapes), files.source)
    try:
        stored = {name: find(files, config, name, shape) for name, shape in shapes.items()}
    except MissingTensor as error:
        raise CheckpointError(f"{error}{settings.contradiction(error.tensor, files, config)}") from error
    for name in sorted(files.tensors.keys() - files.taken):
        if not is_unused(name):
            reason = settings.contradiction(name, files, config)
            raise UnsupportedModel(
                f"{files.source}: tensor {name!r} has no place in a {config.architecture} model{reason}"
            )
    return LazyTensors(stored, precision)


def _classes(names: Iterable[str]) -> set[str]:
    return {precision_class(name) for name in names}


def _shapes(source: str, config: ModelConfig, mtp: bool) -> dict[str, Shape]:
    if mtp and not config.num_mtp_layers:
        raise CheckpointError(
            f"{source}: multi-token prediction is asked for, and no layer from {config.num_layers} on has its weights"
        )
    try:
        return expected_shapes(config) | (mtp_shapes(config) if mtp else {})
    except UnsupportedModel as error:
        raise UnsupportedModel(f"{source}: {error}") from error


def _checked(stored: StoredTensor, packed: PackedTensor) -> PackedTensor:
    """Refuse what would turn every answer into NaN."""
    if not is_finite(packed):
        where = _culprit(stored).where
        raise CheckpointError(f"{where} holds values that are not finite: the file is damaged; fetch it again")
    return packed


def _culprit(stored: StoredTensor) -> StoredTensor:
    """Of a tensor that is put together of others, the one to be named."""
    parts = stored.parts if isinstance(stored, Stacked) else ()
    return next((part for part in parts if not is_finite(part.packed())), stored)
