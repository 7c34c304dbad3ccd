"""A file's tensors by its own names, whatever format it has: found, checked, and counted off as they are asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CheckpointError
from tailrace.ops.packed import PackedTensor, WeightFormat
from tailrace.ops.raw import RawParts

__all__ = ["FileTensor", "FileTensors", "MissingTensor", "RawTensor", "Shape", "StoredTensor", "raw_parts"]

Shape = tuple[int, ...]


class MissingTensor(CheckpointError):
    """`tensor` is the name that a file should hold."""

    def __init__(self, source: str, tensor: str) -> None:
        super().__init__(f"{source}: tensor {tensor!r} is missing")
        self.tensor = tensor


class StoredTensor(Protocol):
    """A tensor that can be read out of some file, as a whole or a few rows at a time."""

    @property
    def shape(self) -> Shape: ...

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

    @property
    def has_half_scales(self) -> bool:
        """Whether float16 holds the scales and offsets of `packed`, if it has any; else float32 does."""
        ...

    def packed(self) -> PackedTensor:
        """The tensor without loss; float32 where no other format holds it."""
        ...

    def rows(self, begin: int, end: int) -> NDArray[np.float32]:
        """Float32 values of rows [begin, end) of a matrix."""
        ...

    def release(self) -> None:
        """Give the memory of its pages back, once a copy is made; a later look reads the file."""
        ...


@runtime_checkable
class RawTensor(Protocol):
    """What a stored tensor may be besides: readable by native code, where it lies."""

    def raw(self) -> RawParts | None:
        """The rows of a matrix as they lie in the file; None: in no form that native code reads."""
        ...


def raw_parts(stored: StoredTensor) -> RawParts | None:
    """As `RawTensor.raw`, of any tensor."""
    return stored.raw() if isinstance(stored, RawTensor) else None


class FileTensor(StoredTensor, Protocol):
    """One tensor of a file."""

    def as_matrix(self) -> Self:
        """The matrices of a tensor [count, rows, columns] one below the other."""
        ...

    def check(self) -> None:
        """Raises UnsupportedModel when the stored type cannot be read, CheckpointError when its size is wrong."""
        ...


@dataclass(frozen=True, slots=True)
class FileTensors:
    """The tensors of a checkpoint's files. `taken` are those that somebody has asked for."""

    source: str
    tensors: Mapping[str, FileTensor]
    taken: set[str] = field(default_factory=set)

    def __contains__(self, name: Any) -> bool:
        return name in self.tensors

    def take(self, name: str, shape: Shape) -> FileTensor:
        """Raises MissingTensor, or CheckpointError when the tensor is of another shape."""
        stored = self.tensors.get(name)
        if stored is None:
            raise MissingTensor(self.source, name)
        if stored.shape != shape:
            raise CheckpointError(f"{stored.where} has shape {list(stored.shape)}, the config asks for {list(shape)}")
        stored.check()
        self.taken.add(name)
        return stored
