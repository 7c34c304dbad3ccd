"""The native lightning indexer against its formula in float64: exact counts and order, whatever the sizes and cuts."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tailrace.ops.api import Executable, KvFormat, Limits
from tailrace.ops.builder import ProgramBuilder
from tailrace.ops.cpu.backend import CpuBackend, supported_isas
from tailrace.ops.packed import PackedTensor, from_float32
from tailrace.ops.program import Program, RopeSpec, Weight
from tests.support.steps import Part, limits, step

MAX_TOKENS = 240
LIMITS: Limits = replace(
    limits(max_tokens=MAX_TOKENS, max_sequences=2, max_model_tokens=MAX_TOKENS, block_tokens=16), num_threads=2
)
# How far a score may be off, of what a query and a key as long as its own usually make: positions this near to the last
# that is selected may take its place.
TOLERANCE: dict[KvFormat, float] = {"f32": 1e-5, "bf16": 0.01, "int8": 0.05, "fp8_e4m3": 0.15}
EPS = 1e-6

Ids = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Shape:
    num_heads: int
    head_dim: int
    num_turned: int  # pairs
    top_k: int
    num_tokens: int
    angle: float = 1.0  # of the first pair, for each position
    is_interleaved: bool = False

    @property
    def rope(self) -> RopeSpec:
        return RopeSpec(tuple(self.angle * 0.5**i for i in range(self.num_turned)), interleaved=self.is_interleaved)


def shape_of(
    num_heads: int, head_dim: int, turned: float, top_k: int, num_tokens: int, *, is_interleaved: bool
) -> Shape:
    num_turned = 1 + int(turned * (head_dim // 2 - 1))
    return Shape(num_heads, head_dim, num_turned, top_k, num_tokens, is_interleaved=is_interleaved)


shapes = st.builds(
    shape_of,
    num_heads=st.integers(1, 9),
    head_dim=st.integers(2, 140),
    turned=st.floats(0, 1),
    top_k=st.integers(1, 100),
    num_tokens=st.integers(1, MAX_TOKENS),
    is_interleaved=st.booleans(),
)
PLAIN = Shape(num_heads=6, head_dim=32, num_turned=8, top_k=20, num_tokens=MAX_TOKENS)


def program(shape: Shape) -> Program:
    """Its embeddings are queries, keys and weights of the heads; its logits are what is selected, as whole numbers."""
    build = ProgramBuilder()
    cols = {"q": shape.num_heads * shape.head_dim, "k": shape.head_dim, "head_weights": shape.num_heads}
    q, k, head_weights = (build.embed(Weight(name, (shape.num_tokens, n))) for name, n in cols.items())
    out = build.select_positions(
        q,
        k,
        head_weights,
        build.kv_cache(1, shape.head_dim, has_values=False),
        shape.top_k,
        norm=Weight("norm", (shape.head_dim,)),
        norm_bias=Weight("norm.bias", (shape.head_dim,)),
        eps=EPS,
        rope=shape.rope,
    )
    return build.finish(build.gather_rows(out))


def random_weights(shape: Shape, seed: int = 0) -> dict[str, PackedTensor]:
    rng = np.random.default_rng(seed)
    shapes = {weight.name: weight.shape for weight in program(shape).weights.values()}
    return {name: from_float32(rng.normal(size=size).astype(np.float32)) for name, size in shapes.items()}


def scores(shape: Shape, weights: dict[str, PackedTensor]) -> NDArray[np.float64]:
    """[tokens, positions] in float64, of every token at its own position."""
    q, k, head_weights = operands(shape, weights)
    keys = turn(shape, k[:, None])[:, 0]
    products = np.einsum("thd,sd->ths", turn(shape, q), keys)
    result: NDArray[np.float64] = np.einsum("ths,th->ts", np.maximum(products, 0), head_weights)
    return result


def usual_scores(shape: Shape, weights: dict[str, PackedTensor]) -> NDArray[np.float64]:
    """[tokens, positions]: the size of a score whose queries and key have these lengths and any directions."""
    q, k, head_weights = operands(shape, weights)
    of_queries = np.einsum("th,th->t", np.linalg.norm(q, axis=2), np.abs(head_weights))
    result: NDArray[np.float64] = np.outer(of_queries, np.linalg.norm(k, axis=1)) / np.sqrt(shape.head_dim)
    return result


def operands(
    shape: Shape, weights: dict[str, PackedTensor]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Queries [tokens, heads, D], normed keys [tokens, D], weights [tokens, heads]."""
    values = {name: weight.values.astype(np.float64) for name, weight in weights.items()}
    k = values["k"]
    centred = k - k.mean(axis=1, keepdims=True)
    normed = centred / np.sqrt(np.square(centred).mean(axis=1, keepdims=True) + EPS)
    q = values["q"].reshape(shape.num_tokens, shape.num_heads, shape.head_dim)
    return q, normed * values["norm"] + values["norm.bias"], values["head_weights"]


def turn(shape: Shape, heads: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pairs of the first 2n values of each head [tokens, heads, D], as complex numbers: neighbours, or (i, i + n)."""
    angles = np.arange(len(heads))[:, None, None] * np.array(shape.rope.inv_freq)
    n, out = shape.num_turned, heads.copy()
    first, second = (slice(0, 2 * n, 2), slice(1, 2 * n, 2)) if shape.is_interleaved else (slice(n), slice(n, 2 * n))
    turned = (heads[..., first] + 1j * heads[..., second]) * np.exp(1j * angles)
    out[..., first], out[..., second] = turned.real, turned.imag
    return out


def load(
    shape: Shape, weights: dict[str, PackedTensor], isa: str, kv_format: KvFormat, of: Limits = LIMITS
) -> Executable:
    return CpuBackend(isa, kv_format).load(program(shape), weights, of)


def selections(executable: Executable, *parts: Part, of: Limits = LIMITS) -> Ids:
    return executable.logits(step(of, *parts)).view(np.int32).copy()


@pytest.mark.parametrize("kv_format", TOLERANCE)
@pytest.mark.parametrize("isa", supported_isas())
@settings(max_examples=12)
@given(shape=shapes, seed=st.integers(0, 1000))
def test_the_positions_with_the_largest_scores_are_selected(
    isa: str, kv_format: KvFormat, shape: Shape, seed: int
) -> None:
    weights = random_weights(shape, seed)
    expected = scores(shape, weights)
    tolerance = TOLERANCE[kv_format] * usual_scores(shape, weights)

    computed = selections(load(shape, weights, isa, kv_format), Part(0, 0, range(shape.num_tokens)))

    for position, row in enumerate(computed):
        num_selected = min(position + 1, shape.top_k)
        chosen, others = row[:num_selected], np.setdiff1d(np.arange(position + 1), row)
        assert np.all(row[num_selected:] == -1)
        assert np.all(np.diff(chosen) > 0)
        assert 0 <= chosen[0] <= chosen[-1] <= position
        if len(others) > 0:
            at_most = (expected + tolerance)[position, chosen]
            at_least = (expected - tolerance)[position, others]
            assert at_most.min() >= at_least.max()


@pytest.mark.parametrize("kv_format", TOLERANCE)
@pytest.mark.parametrize("isa", supported_isas())
def test_of_equals_the_earlier_are_selected(isa: str, kv_format: KvFormat) -> None:
    """Where all keys are alike, and where heads that count for nothing make every score zero."""
    shape = replace(PLAIN, angle=0.0)
    weights = random_weights(shape)
    for name in ("norm", "head_weights"):
        zeros = from_float32(np.zeros(weights[name].shape, np.float32))
        computed = selections(load(shape, weights | {name: zeros}, isa, kv_format), Part(0, 0, range(shape.num_tokens)))
        assert np.all(computed[shape.top_k :] == np.arange(shape.top_k))


CUTS: dict[str, list[int]] = {
    "in chunks": [0, 7, 23, 84, 120, 200, 240],
    "in one token at the end": [0, 239, 240],
    "in tokens": [0, 200, *range(201, 241)],
}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("kv_format", TOLERANCE)
@pytest.mark.parametrize("isa", supported_isas())
def test_the_selection_is_the_same_however_a_sequence_is_cut(isa: str, kv_format: KvFormat, cut: str) -> None:
    """Long steps score a row where it is selected; short ones share its positions out among threads."""
    weights, bounds = random_weights(PLAIN), CUTS[cut]
    whole = selections(load(PLAIN, weights, isa, kv_format), Part(0, 0, range(MAX_TOKENS)))
    executable = load(PLAIN, weights, isa, kv_format)
    parts = [Part(1, start, range(start, stop)) for start, stop in pairwise(bounds)]

    assert np.array_equal(np.concatenate([selections(executable, part) for part in parts]), whole)


@pytest.mark.parametrize("num_threads", [1, 3])
@pytest.mark.parametrize("isa", supported_isas())
def test_the_selection_is_the_same_beside_others_and_on_any_number_of_threads(isa: str, num_threads: int) -> None:
    weights, of = random_weights(PLAIN), replace(LIMITS, num_threads=num_threads)
    whole = selections(load(PLAIN, weights, isa, "bf16"), Part(0, 0, range(MAX_TOKENS)))
    executable = load(PLAIN, weights, isa, "bf16", of)
    selections(executable, Part(0, 0, range(237)), of=of)
    selections(executable, Part(1, 0, range(100, 200)), of=of)
    beside = selections(executable, Part(1, 100, [3]), Part(0, 237, [237, 238]), of=of)

    assert np.array_equal(beside[1:], whole[237:239])


def test_numbers_that_are_none_are_selected_last() -> None:
    """As many positions as ever, each of them once."""
    weights = random_weights(PLAIN)
    head_weights = weights["head_weights"].values.copy()
    head_weights[230] = np.nan
    keys = weights["k"].values.copy()
    keys[9] = np.inf
    odd = weights | {"head_weights": from_float32(head_weights), "k": from_float32(keys)}
    for isa in supported_isas():
        computed = selections(load(PLAIN, odd, isa, "f32"), Part(0, 0, range(MAX_TOKENS)))
        assert np.all(np.diff(computed[PLAIN.top_k :], axis=1) > 0)
        assert np.all(computed[PLAIN.top_k :, 0] >= 0)
