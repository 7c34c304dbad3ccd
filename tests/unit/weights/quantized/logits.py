"""Logits of quantised models on each back end, from what files hold exactly or from what is made of it."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tailrace.models.registry import build_program
from tailrace.ops.api import Backend
from tailrace.ops.cpu.backend import CpuBackend
from tailrace.ops.packed import PackedTensor
from tailrace.ops.reference import ReferenceBackend
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.lazy import LazyTensors
from tests.support.steps import limits, teacher_forced

__all__ = ["BACKENDS", "as_stored", "logits", "relative_error"]

BACKENDS: dict[str, Backend] = {"reference": ReferenceBackend(), "cpu": CpuBackend(kv_format="f32")}
_IDS = [1, 17, 40, 3, 3, 29, 8, 11, 25, 46, 2, 31]


def as_stored(checkpoint: Checkpoint) -> dict[str, PackedTensor]:
    """Without loss, whatever that takes."""
    assert isinstance(checkpoint.tensors, LazyTensors)
    return {name: stored.packed() for name, stored in checkpoint.tensors.stored.items()}


def logits(backend: str, checkpoint: Checkpoint, tensors: Mapping[str, PackedTensor]) -> NDArray[np.float32]:
    of = limits(block_tokens=16)
    executable = BACKENDS[backend].load(build_program(checkpoint.config), tensors, of)
    return teacher_forced(executable, of, _IDS, chunk_tokens=len(_IDS)).copy()


def relative_error(found: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
    """The root mean square of what is wrong, of that of the right values."""
    return float(np.sqrt(np.square(found - expected).mean() / np.square(expected).mean()))
