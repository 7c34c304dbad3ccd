"""Native attention against softmax in float64, over heads, windows and contexts of any size."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tailrace.ops.api import KvFormat, Limits
from tailrace.ops.builder import ProgramBuilder
from tailrace.ops.cpu.backend import CpuBackend, supported_isas
from tailrace.ops.packed import from_float32
from tailrace.ops.program import Program, RopeSpec, Weight
from tests.support.steps import Part, limits, step

LIMITS: Limits = limits(max_tokens=200, max_sequences=1, max_model_tokens=208, block_tokens=16)
NO_TURN = RopeSpec(inv_freq=(0.0,))
# Of the root mean square; without and with an outlier, which a code of 8 bits rounds in steps of its own size.
TOLERANCE: dict[KvFormat, tuple[float, float]] = {
    "f32": (1e-5, 1e-5),
    "bf16": (0.01, 0.05),
    "int8": (0.02, 0.1),
    "fp8_e4m3": (0.1, 0.8),
}


@dataclass(frozen=True, slots=True)
class Shape:
    num_kv_heads: int
    heads_per_kv_head: int
    head_dim: int
    window: int | None
    num_tokens: int

    @property
    def num_heads(self) -> int:
        return self.num_kv_heads * self.heads_per_kv_head


shapes = st.builds(
    Shape,
    num_kv_heads=st.integers(1, 3),
    heads_per_kv_head=st.integers(1, 9),
    head_dim=st.integers(2, 140),
    window=st.none() | st.integers(1, 150),
    num_tokens=st.integers(1, 200),
)


def program(shape: Shape) -> Program:
    """Its embedding is queries, keys and values; its logits are what attention makes of them."""
    build = ProgramBuilder()
    cache = build.kv_cache(shape.num_kv_heads, shape.head_dim)
    cols = (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim
    qkv = build.embed(Weight("qkv", (shape.num_tokens, cols)))
    q = build.rope_and_store(qkv, cache, shape.num_heads, NO_TURN)
    out = build.paged_attention(q, cache, shape.num_heads, shape.head_dim**-0.5, shape.window)
    return build.finish(build.gather_rows(out))


def exact(shape: Shape, qkv: NDArray[np.float32]) -> NDArray[np.float64]:
    heads = qkv.astype(np.float64).reshape(shape.num_tokens, -1, shape.head_dim)
    q, k, v = np.split(heads, [shape.num_heads, shape.num_heads + shape.num_kv_heads], axis=1)
    k, v = (np.repeat(part, shape.heads_per_kv_head, axis=1) for part in (k, v))
    scores = np.einsum("thd,shd->hts", q, k) * shape.head_dim**-0.5
    distance = np.arange(shape.num_tokens)[:, None] - np.arange(shape.num_tokens)
    scores[:, (distance < 0) | (distance >= (shape.window or shape.num_tokens))] = -np.inf
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    out: NDArray[np.float64] = np.einsum("hts,shd->thd", weights / weights.sum(axis=2, keepdims=True), v)
    return out.reshape(shape.num_tokens, -1)


@pytest.mark.parametrize("kv_format", TOLERANCE)
@pytest.mark.parametrize("isa", supported_isas())
@settings(max_examples=12)
@given(shape=shapes, seed=st.integers(0, 1000), outlier=st.sampled_from([1.0, 30.0]))
def test_attention_is_softmax_whatever_the_sizes(
    isa: str, kv_format: KvFormat, shape: Shape, seed: int, outlier: float
) -> None:
    """With `outlier`, one dimension of the keys is far larger than the rest, and always the same, as in some models."""
    cols = (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim
    qkv = np.random.default_rng(seed).normal(size=(shape.num_tokens, cols)).astype(np.float32)
    qkv[:, shape.num_heads * shape.head_dim] = outlier
    expected = exact(shape, qkv)

    executable = CpuBackend(isa, kv_format).load(program(shape), {"qkv": from_float32(qkv)}, LIMITS)
    computed = executable.logits(step(LIMITS, Part(0, 0, range(shape.num_tokens))))

    error = np.sqrt(np.square(computed - expected).mean() / np.square(expected).mean())
    assert error < TOLERANCE[kv_format][outlier > 1]
