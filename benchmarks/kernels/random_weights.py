"""Random weights of a real model's formats, and of its activations' habits.

Real activations have a few channels far above the others, and those cost time: the CPU back end gives values that stand
out from their row eight bits more. Of the default model's groups of 32 on prose, 22% hold such a value behind the norms
of its layers, 63% behind the last norm, 19% behind SwiGLU and 14% behind attention. With equal norm weights hardly any
would; with one loud channel in every third group it is 24%, 39%, 30% and 1%: as much extra work in all.
"""

import numpy as np

from tailrace.ops.packed import GROUP, PackedTensor, from_float32
from tailrace.ops.program import Program

__all__ = ["random_weights"]

LOUD_GROUPS = 3  # one in so many has a loud channel
LOUDNESS = 12.0


def random_weights(program: Program) -> dict[str, PackedTensor]:
    """int4 matrices, int8 embedding and head, float vectors: the formats of the default model.

    Matrices of one shape share their values, so that a large model needs the memory of one layer.
    """
    rng = np.random.default_rng(0)
    matrices: dict[tuple[bool, tuple[int, ...]], PackedTensor] = {}
    weights = {}
    for name, weight in program.weights.items():
        if len(weight.shape) == 1:
            weights[name] = _vector(name, weight.shape[0])
            continue
        is_vocabulary = name in ("embed", "head")
        key = is_vocabulary, weight.shape
        if key not in matrices:
            matrices[key] = (_random_int8 if is_vocabulary else _random_int4)(rng, *weight.shape)
        weights[name] = matrices[key]
    return weights


def _vector(name: str, cols: int) -> PackedTensor:
    values = np.zeros(cols, np.float32) if name.endswith(".bias") else np.ones(cols, np.float32)
    if name.endswith("norm"):
        values[:: GROUP * LOUD_GROUPS] = LOUDNESS
    return from_float32(values)


def _random_int4(rng: np.random.Generator, outputs: int, inputs: int) -> PackedTensor:
    groups = inputs // GROUP
    codes = rng.integers(0, 256, (outputs, groups, GROUP // 2), np.uint8)
    scale = np.float16(0.2 * inputs**-0.5)  # codes have a deviation of 4.6: activations stay near one
    scales = np.full((outputs, groups), scale)
    return PackedTensor((outputs, inputs), "q4", codes, scales, scales * np.float16(-7.5))


def _random_int8(rng: np.random.Generator, outputs: int, inputs: int) -> PackedTensor:
    codes = rng.integers(-127, 128, (outputs, inputs // GROUP, GROUP), np.int8)
    return PackedTensor((outputs, inputs), "q8", codes, np.full((outputs, inputs // GROUP), np.float16(0.01)))
