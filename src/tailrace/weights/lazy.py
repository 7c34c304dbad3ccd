"""The tensors of a checkpoint by our names: read, converted and checked one at a time, when asked for, and not kept."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.models.config import ModelConfig
from tailrace.ops.packed import GROUP, PackedTensor, WeightFormat
from tailrace.weights.expected import expected_shapes
from tailrace.weights.layer_settings import LayerSettings
from tailrace.weights.mtp import mtp_shapes
from tailrace.weights.names import tensor_class
from tailrace.weights.quantize import quantize_rows
from tailrace.weights.stored import FileTensors, MissingTensor, Shape, StoredTensor

__all__ = ["ALWAYS_INT8", "NEVER_QUANTIZED", "FindTensor", "LazyTensors", "Quantize", "lazy_tensors"]

Quantize = Literal["int8", "int4"]
FindTensor = Callable[[FileTensors, ModelConfig, str, Shape], StoredTensor]  # the tensor of our name, and its shape

_BITS: dict[WeightFormat, int] = {"f32": 32, "f16": 16, "bf16": 16, "q8": 8, "q4": 4}
_QUANTIZED_BITS: dict[Quantize, int] = {"int8": 8, "int4": 4}
ALWAYS_INT8 = frozenset({"embed", "head"})  # 4 bits there cost more quality than they save
NEVER_QUANTIZED = frozenset({"router", "index.weights"})  # small, and what they decide is decided by small differences


@dataclass(frozen=True)
class LazyTensors(Mapping[str, PackedTensor]):
    """Our names -> packed tensors. `errors` collects the relative RMS error of what had to be quantised."""

    stored: Mapping[str, StoredTensor]
    quantize: Quantize | None
    errors: dict[str, float] = field(default_factory=dict)

    def __getitem__(self, name: str) -> PackedTensor:
        """Raises CheckpointError when the values are not finite, KeyError when the model has no such tensor."""
        stored = self.stored[name]
        mode = self._mode(name, stored)
        if mode is None:
            with np.errstate(all="ignore"):
                return _checked(stored, stored.packed())
        packed, self.errors[name] = quantize_rows(stored.rows, stored.shape, mode, stored.where)
        stored.release()
        return packed

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)

    @property
    def float_matrices(self) -> dict[str, WeightFormat]:
        """The matrices that stay what they are in the file, where that is floats."""
        found: dict[str, WeightFormat] = {}
        for name, stored in self.stored.items():
            if len(stored.shape) == 2 and self._mode(name, stored) is None and stored.format in ("f32", "f16", "bf16"):
                found[name] = stored.format
        return found

    def _mode(self, name: str, stored: StoredTensor) -> Quantize | None:
        """How to quantise on the way in; None: the tensor stays as it is."""
        if len(stored.shape) != 2 or stored.shape[1] % GROUP or tensor_class(name) in NEVER_QUANTIZED:
            return None
        mode = self.quantize
        if mode == "int4" and tensor_class(name) in ALWAYS_INT8:
            mode = "int8"
        if stored.format is None:
            return mode or "int8"
        return mode if mode and _QUANTIZED_BITS[mode] < _BITS[stored.format] else None


def lazy_tensors(
    files: FileTensors,
    config: ModelConfig,
    find: FindTensor,
    settings: LayerSettings,
    *,
    is_unused: Callable[[str], bool],
    quantize: Quantize | None,
    mtp: bool,
) -> LazyTensors:
    """Match the tensors in `files` with what `config` asks for: all there, of the right shape, of a readable type.

    A tensor that nobody reads is refused, but for names that `is_unused` knows: the model would run without it, and
    answer wrongly. Complaints name those of the `settings` that ask for something else. `mtp` asks for the weights of
    multi-token prediction too.
    """
    shapes = _shapes(files.source, config, mtp)
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
    return LazyTensors(stored, quantize)


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
    """Refuse what would turn every answer into NaN, where looking is cheap: vectors, and the scales of groups."""
    looked_at = [packed.dequantize()] if len(packed.shape) == 1 else [packed.scales, packed.offsets]
    if not all(np.isfinite(part).all() for part in looked_at if part is not None):
        raise CheckpointError(f"{stored.where} holds values that are not finite: the file is damaged; fetch it again")
    return packed
