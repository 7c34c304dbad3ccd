"""The weights in native memory, by name: each is taken from the checkpoint once, in the layout of the kernels."""

from collections.abc import Mapping, Sequence

import numpy as np

from tailrace.errors import CheckpointError
from tailrace.ops import _native
from tailrace.ops.cpu.arrays import compact, exportable
from tailrace.ops.cpu.stages import KernelFormat
from tailrace.ops.packed import PackedTensor
from tailrace.ops.program import Weight

__all__ = ["WeightStore"]


class WeightStore:
    """Packed weights by name; each is taken from the checkpoint once."""

    def __init__(self, weights: Mapping[str, PackedTensor]) -> None:
        self._weights = weights
        self._ids: dict[str, list[int]] = {}
        self.formats: dict[str, KernelFormat] = {}
        self.packed = _native.Weights()

    def add(self, weight: Weight, num_matrices: int = 1) -> None:
        """Take a weight in. Its rows may be those of `num_matrices` equal matrices, one below the other."""
        if weight.name not in self._weights:
            raise CheckpointError(f"the checkpoint has no tensor {weight.name!r}, which the model needs")
        tensor = self._weights[weight.name]
        if tensor.shape != weight.shape:
            raise CheckpointError(f"tensor {weight.name!r} has shape {tensor.shape}, the model needs {weight.shape}")
        if len(tensor.shape) == 2:
            self._ids[weight.name], self.formats[weight.name] = _pack(self.packed, tensor, num_matrices)
        else:
            self._ids[weight.name], self.formats[weight.name] = [self._vector(tensor)], "f32"

    def id_of(self, weight: Weight) -> int:
        (number,) = self._ids[weight.name]
        return number

    def ids_of(self, weight: Weight) -> list[int]:
        """The matrices that the weight's rows were cut into."""
        return self._ids[weight.name]

    def interleave(self, gate: Weight, up: Weight) -> None:
        """Let who reads both read one stream, if they have one format. Before any stage takes their tiles."""
        if self.formats[gate.name] == self.formats[up.name]:
            for pair in zip(self.ids_of(gate), self.ids_of(up), strict=True):
                self.packed.interleave(*pair)

    def bias(self, weights: Sequence[Weight], biases: Sequence[Weight | None]) -> int | None:
        """The biases side by side as one new vector, zeros where a weight has none."""
        if all(bias is None for bias in biases):
            return None
        parts = [
            np.zeros(weight.shape[0], np.float32) if bias is None else self._weights[bias.name].dequantize()
            for weight, bias in zip(weights, biases, strict=True)
        ]
        return self.packed.add_vector(np.concatenate(parts))

    def _vector(self, tensor: PackedTensor) -> int:
        return self.packed.add_vector(np.ascontiguousarray(tensor.dequantize()))


def _pack(packed: _native.Weights, tensor: PackedTensor, num_matrices: int) -> tuple[list[int], KernelFormat]:
    values = exportable(tensor.values)
    size = len(values) // num_matrices
    parts = [slice(start, start + size) for start in range(0, len(values), size)]
    match tensor.format:
        case "q4":
            scales, offsets = compact(tensor.scales, tensor.offsets)
            ids = [packed.add_q4(values[part], scales[part], offsets[part]) for part in parts]
            return ids, "q4" if scales.dtype == np.float16 else "q4 wide"
        case "q8":
            (scales,) = compact(tensor.scales)
            ids = [packed.add_q8(values[part], scales[part]) for part in parts]
            return ids, "q8" if scales.dtype == np.float16 else "q8 wide"
        case kept:
            return [packed.add_float(values[part]) for part in parts], kept
