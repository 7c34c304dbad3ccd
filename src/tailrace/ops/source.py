"""Where a back end takes weights from: how each will be packed is known first, then its rows, a few at a time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tailrace.errors import CheckpointError
from tailrace.ops.packed import PackedTensor, WeightFormat, has_half_scales

__all__ = ["ReadsAhead", "WeightForm", "WeightSource", "source_of"]


@dataclass(frozen=True, slots=True)
class WeightForm:
    """What is known of a weight before a byte of it is read."""

    shape: tuple[int, ...]
    format: WeightFormat
    has_half_scales: bool = True  # scales and offsets are float16; else float32
    is_narrowed: bool = False  # on its way in, from something wider: best asked for a few rows at a time


@runtime_checkable
class WeightSource(Protocol):
    """Weights by name. May be asked by several threads."""

    def __contains__(self, name: object) -> bool: ...

    def form(self, name: str) -> WeightForm:
        """Raises KeyError for a name that is not there."""
        ...

    def part(self, name: str, begin: int, end: int) -> PackedTensor:
        """Rows [begin, end) of a matrix, or a whole vector. Raises CheckpointError when the values are damaged."""
        ...

    def release(self, name: str, begin: int, end: int) -> None:
        """What `part` gave has been copied: its pages are not needed in memory any more."""
        ...


@runtime_checkable
class ReadsAhead(Protocol):
    """A source that reads from files."""

    def read_ahead(self, name: str, begin: int, end: int) -> None:
        """These rows will be asked for soon. Nobody waits for it."""
        ...


@dataclass(frozen=True, slots=True)
class _Held:
    """Tensors that are all there."""

    tensors: Mapping[str, PackedTensor]

    def __contains__(self, name: object) -> bool:
        return name in self.tensors

    def form(self, name: str) -> WeightForm:
        tensor = self.tensors[name]
        if tensor.format in ("q4", "q8") and tensor.scales is None:
            raise CheckpointError(f"tensor {name!r} is quantised and has no scales")
        return WeightForm(tensor.shape, tensor.format, has_half_scales(tensor))

    def part(self, name: str, begin: int, end: int) -> PackedTensor:
        tensor = self.tensors[name]
        return tensor if len(tensor.shape) == 1 else tensor.cut(begin, end)

    def release(self, name: str, begin: int, end: int) -> None:
        pass


def source_of(weights: Mapping[str, PackedTensor]) -> WeightSource:
    """The tensors themselves where they can tell their forms, else what looks at each of them."""
    return weights if isinstance(weights, WeightSource) else _Held(weights)
