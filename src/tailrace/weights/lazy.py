"""The tensors of a checkpoint by our names: read, converted and checked one at a time, when asked for, and not kept."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.models.config import ModelConfig
from tailrace.ops.packed import GROUP, PackedTensor, WeightFormat
from tailrace.weights.names import expected_shapes, file_names, tensor_class
from tailrace.weights.quantize import quantize_rows

__all__ = ["LazyTensors", "Quantize", "StoredTensor", "lazy_tensors"]

Quantize = Literal["int8", "int4"]

_BITS: dict[WeightFormat, int] = {"f32": 32, "f16": 16, "bf16": 16, "q8": 8, "q4": 4}
_QUANTIZED_BITS: dict[Quantize, int] = {"int8": 8, "int4": 4}
_ALWAYS_INT8 = frozenset({"embed", "head"})  # 4 bits there cost more quality than they save


class StoredTensor(Protocol):
    """One tensor as some file holds it."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def stored_format(self) -> str:
        """The file's own word for its type: Q4_1, BF16."""
        ...

    @property
    def where(self) -> str:
        """File and tensor, for complaints."""
        ...

    @property
    def format(self) -> WeightFormat | None:
        """The packed format that holds the stored values exactly; None: there is none but float32."""
        ...

    def check(self) -> None:
        """Raises UnsupportedModel when the stored type cannot be read."""
        ...

    def packed(self) -> PackedTensor: ...

    def rows(self, begin: int, end: int) -> NDArray[np.float32]: ...


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
        return packed

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)

    def _mode(self, name: str, stored: StoredTensor) -> Quantize | None:
        """How to quantise on the way in; None: the tensor stays as it is."""
        if len(stored.shape) != 2 or stored.shape[1] % GROUP:
            return None
        mode = self.quantize
        if mode == "int4" and tensor_class(name) in _ALWAYS_INT8:
            mode = "int8"
        if stored.format is None:
            return mode or "int8"
        return mode if mode and _QUANTIZED_BITS[mode] < _BITS[stored.format] else None


def lazy_tensors(
    source: str,
    config: ModelConfig,
    names: Mapping[str, str],
    in_file: Mapping[str, StoredTensor],
    *,
    ignored: tuple[str, ...],
    quantize: Quantize | None,
) -> LazyTensors:
    """Match a file's tensors with what `config` asks for: all there, of the right shape, of a readable type.

    A tensor that nobody reads is refused, but for names that end in one of `ignored`: the model would run without it,
    and answer wrongly.
    """
    theirs = file_names(names, expected_shapes(config))
    for name in in_file.keys() - theirs.values():
        if not name.endswith(ignored):
            raise UnsupportedModel(f"{source}: tensor {name!r} has no place in a {config.architecture} model")
    stored = {}
    for ours, shape in expected_shapes(config).items():
        if theirs[ours] not in in_file:
            raise CheckpointError(f"{source}: tensor {theirs[ours]!r} is missing")
        stored[ours] = _fitting(in_file[theirs[ours]], shape)
    return LazyTensors(stored, quantize)


def _fitting(stored: StoredTensor, shape: tuple[int, ...]) -> StoredTensor:
    if stored.shape != shape:
        raise CheckpointError(f"{stored.where} has shape {list(stored.shape)}, the config asks for {list(shape)}")
    stored.check()
    return stored


def _checked(stored: StoredTensor, packed: PackedTensor) -> PackedTensor:
    """Refuse what would turn every answer into NaN, where looking is cheap: vectors, and the scales of groups."""
    looked_at = [packed.dequantize()] if len(packed.shape) == 1 else [packed.scales, packed.offsets]
    if not all(np.isfinite(part).all() for part in looked_at if part is not None):
        raise CheckpointError(f"{stored.where} holds values that are not finite: the file is damaged; fetch it again")
    return packed
