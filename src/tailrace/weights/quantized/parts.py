"""The tensors that a matrix quantised in groups is stored as, found by the names that AWQ and GPTQ share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CheckpointError
from tailrace.ops.packed import PackedTensor
from tailrace.weights.safetensors import SafetensorsTensor
from tailrace.weights.stored import FileTensor

__all__ = ["Parts", "compose_modules"]

_CODES, _ZEROS, _SCALES, _GROUPS = _PARTS = ("qweight", "qzeros", "scales", "g_idx")
_SCALE_DTYPES = ("F16", "BF16", "F32")


@dataclass(frozen=True, slots=True)
class Parts:
    """What belongs to one matrix. Files hold it turned: inputs, or groups of them, by outputs."""

    codes: SafetensorsTensor
    scales: SafetensorsTensor
    zeros: SafetensorsTensor | None
    groups: SafetensorsTensor | None  # of each input

    def missing(self, what: str) -> CheckpointError:
        """The complaint about a part that has to be there."""
        name = f"{self.codes.name.removesuffix(_CODES)}{what}"
        return CheckpointError(f"{self.codes.where} needs tensor {name!r}, which is missing")

    def check_scales(self, num_groups: int, num_outputs: int) -> None:
        self.scales.check_part(_SCALE_DTYPES, (num_groups, num_outputs))

    def scale_values(self, begin: int, end: int, largest_code: int) -> NDArray[np.float32]:
        """[outputs, groups] for outputs [begin, end). Raises CheckpointError when a weight would not be finite."""
        stored = self.scales.packed()
        part = stored.values[:, begin:end]
        scales = PackedTensor(part.shape, stored.format, part).dequantize()
        with np.errstate(all="ignore"):
            if not np.isfinite(scales * largest_code).all():
                raise CheckpointError(
                    f"{self.scales.where} holds values that are not finite: the file is damaged; fetch it again"
                )
        return np.ascontiguousarray(scales.T)

    def release(self) -> None:
        for part in (self.codes, self.scales, self.zeros, self.groups):
            if part is not None:
                part.release()


def compose_modules(
    tensors: Mapping[str, SafetensorsTensor], matrix: Callable[[str, Parts], FileTensor]
) -> dict[str, FileTensor]:
    """`tensors` with one matrix(module, its parts) in place of the parts of each quantised module."""
    modules = {module for module, part in map(_split, tensors) if part == _CODES}
    composed: dict[str, FileTensor] = {}
    for name, tensor in tensors.items():
        module, part = _split(name)
        if part not in _PARTS:
            composed[name] = tensor
        elif module not in modules:
            raise CheckpointError(f"{tensor.where} belongs to tensor '{module}.{_CODES}', which is missing")
    for module in sorted(modules):
        parts = _parts(tensors, module)
        if (weight := f"{module}.weight") in tensors:
            raise CheckpointError(f"{parts.codes.where} is there, and so is {weight!r}: which of them is meant?")
        composed[weight] = matrix(module, parts)
    return composed


def _split(name: str) -> tuple[str, str]:
    module, _, part = name.rpartition(".")
    return module, part


def _parts(tensors: Mapping[str, SafetensorsTensor], module: str) -> Parts:
    codes, scales, zeros, groups = (tensors.get(f"{module}.{part}") for part in (_CODES, _SCALES, _ZEROS, _GROUPS))
    assert codes is not None  # it made the module one
    if scales is None:
        raise Parts(codes, codes, None, None).missing(_SCALES)
    for part in (codes, scales):
        if len(part.shape) != 2:
            raise CheckpointError(f"{part.where} has shape {list(part.shape)}; it must be a matrix")
    return Parts(codes, scales, zeros, groups)
