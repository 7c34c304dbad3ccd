"""Native mixtures of experts against the reference, over ways to route, sizes, and rows of any number."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tailrace.ops.api import Backend, Executable, Limits
from tailrace.ops.builder import ProgramBuilder
from tailrace.ops.cpu.backend import CpuBackend, CpuExecutable, supported_isas
from tailrace.ops.packed import PackedTensor, from_float32, quantize_int4, quantize_int8
from tailrace.ops.program import Program, Routing, Weight
from tailrace.ops.reference import ReferenceBackend
from tests.support.steps import Part, limits, step
from tests.support.tiny import Pack, bfloat16, float16

MOST_ROWS = 520
LIMITS = replace(limits(max_tokens=MOST_ROWS, max_sequences=1, max_model_tokens=528, block_tokens=16), num_threads=2)
PACKS: dict[str, Pack] = {
    "f32": from_float32,
    "f16": float16,
    "bf16": bfloat16,
    "int8": quantize_int8,
    "int4": quantize_int4,
}
TOLERANCE = {"f32": 1e-5, "f16": 1e-5, "bf16": 1e-4, "int8": 0.02, "int4": 0.02}  # bf16: AMX keeps 16 bits


@dataclass(frozen=True, slots=True)
class Shape:
    routing: Routing
    hidden: int
    inner: int
    has_bias: bool = False

    @property
    def num_experts(self) -> int:
        return self.routing.num_experts


@st.composite
def routings(draw: st.DrawFn) -> Routing:
    num_groups, size = draw(st.integers(1, 5)), draw(st.integers(2, 9))
    top_groups = draw(st.integers(1, num_groups))
    return Routing(
        num_experts=num_groups * size,
        top_k=draw(st.integers(1, min(top_groups * size, 8))),
        scoring=draw(st.sampled_from(["softmax", "sigmoid"])),
        num_groups=num_groups,
        top_groups=top_groups,
        group_rank=draw(st.sampled_from(["max", "top two"])),
        normalize=draw(st.booleans()),
        scale=draw(st.sampled_from([1.0, 2.5])),
    )


shapes = st.builds(
    Shape,
    routing=routings(),
    hidden=st.integers(1, 5).map(lambda n: 32 * n),
    inner=st.integers(1, 9).map(lambda n: 32 * n),
    has_bias=st.booleans(),
)


def program(shape: Shape) -> Program:
    """Its embedding is the router's logits and the row beside them; its logits are the row and what experts add."""
    build, count, hidden, inner = ProgramBuilder(), shape.num_experts, shape.hidden, shape.inner
    both = build.embed(Weight("rows", (MOST_ROWS, count + hidden)))
    logits = build.linear(both, Weight("router", (count, count + hidden)))
    x = build.linear(both, Weight("x", (hidden, count + hidden)))
    out = build.experts(
        x,
        logits,
        shape.routing,
        gate=Weight("gate", (count * inner, hidden)),
        up=Weight("up", (count * inner, hidden)),
        down=Weight("down", (count * hidden, inner)),
        residual=x,
        bias=Weight("bias", (count,)) if shape.has_bias else None,
    )
    return build.finish(build.gather_rows(out))


def weights(shape: Shape, logits: NDArray[np.float32], pack: Pack) -> dict[str, PackedTensor]:
    rng, count, hidden = np.random.default_rng(0), shape.num_experts, shape.hidden

    def random(rows: int, cols: int) -> NDArray[np.float32]:
        return rng.normal(scale=cols**-0.5, size=(rows, cols)).astype(np.float32)

    both = np.eye(count + hidden, dtype=np.float32)
    return {
        "rows": from_float32(np.concatenate([logits, 8 * random(MOST_ROWS, hidden)], axis=1)),
        "router": from_float32(both[:count]),
        "x": from_float32(both[count:]),
        "gate": pack(random(count * shape.inner, hidden)),
        "up": pack(random(count * shape.inner, hidden)),
        "down": pack(random(count * hidden, shape.inner)),
        "bias": from_float32(np.rint(8 * random(count, 1)[:, 0]) * np.float32(1 / 8)),
    }


def spread_logits(shape: Shape) -> NDArray[np.float32]:
    """No two experts, or groups, of a row are so near that rounding makes them change places."""
    rng, count = np.random.default_rng(1), shape.num_experts
    ranks = np.stack([rng.permutation(count) for _ in range(MOST_ROWS)])
    return ((ranks - count / 2) / 8 + 1 / 48).astype(np.float32)


def computed(executable: Executable, rows: range, of: Limits = LIMITS) -> NDArray[np.float32]:
    return executable.logits(step(of, Part(0, 0, rows))).copy()


def load(backend: Backend, shape: Shape, logits: NDArray[np.float32], pack: Pack = from_float32) -> Executable:
    return backend.load(program(shape), weights(shape, logits, pack), LIMITS)


def error(rows: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
    return float(np.sqrt(np.square(rows - expected).mean() / np.square(expected).mean()))


@pytest.mark.parametrize("name", PACKS)
@pytest.mark.parametrize("isa", supported_isas())
@settings(max_examples=8)
@given(shape=shapes, num_rows=st.integers(1, 9) | st.integers(10, 200))
def test_experts_add_what_the_reference_says(isa: str, name: str, shape: Shape, num_rows: int) -> None:
    logits = spread_logits(shape)
    expected = computed(load(ReferenceBackend(), shape, logits, PACKS[name]), range(num_rows))
    rows = computed(load(CpuBackend(isa), shape, logits, PACKS[name]), range(num_rows))

    assert error(rows, expected) < TOLERANCE[name]


SHAPE = Shape(Routing(12, 3, "softmax", normalize=True), hidden=64, inner=160)


@pytest.mark.parametrize("name", ["f32", "bf16", "int8", "int4"])
@pytest.mark.parametrize("isa", supported_isas())
def test_a_row_has_the_same_bits_in_any_company(isa: str, name: str) -> None:
    """More rows than one expert meets at once, a few, alone; on one thread as on two."""
    logits = spread_logits(SHAPE)
    logits[:300] = logits[0]
    together = computed(load(CpuBackend(isa), SHAPE, logits, PACKS[name]), range(513))
    of = replace(LIMITS, num_threads=1)
    alone = CpuBackend(isa).load(program(SHAPE), weights(SHAPE, logits, PACKS[name]), of)

    for rows in (range(1), range(299, 301), range(290, 294), range(280, 330), range(512, 513)):
        assert np.array_equal(computed(alone, rows, of), together[rows.start : rows.stop])


@pytest.mark.parametrize("isa", supported_isas())
@pytest.mark.parametrize("num_rows", [1, 4, MOST_ROWS])
def test_all_rows_may_choose_the_same_experts(isa: str, num_rows: int) -> None:
    shape = replace(SHAPE, routing=Routing(40, 1, "sigmoid"))
    logits = np.full((MOST_ROWS, 40), -1, np.float32)
    logits[:, 17] = 2
    executable = load(CpuBackend(isa), shape, logits)
    expected = computed(load(ReferenceBackend(), shape, logits), range(num_rows))

    assert error(computed(executable, range(num_rows)), expected) < TOLERANCE["f32"]
    assert isinstance(executable, CpuExecutable)
    assert executable.expert_loads[0].tolist() == [num_rows if expert == 17 else 0 for expert in range(40)]


@pytest.mark.parametrize("isa", supported_isas())
def test_among_equals_the_lower_numbers_are_chosen(isa: str) -> None:
    """Of groups too: the first two of four hold four experts, of which the first three are taken."""
    shape = replace(SHAPE, routing=Routing(8, 3, "softmax", num_groups=4, top_groups=2, group_rank="top two"))
    executable = load(CpuBackend(isa), shape, np.zeros((MOST_ROWS, 8), np.float32))
    computed(executable, range(30))

    assert isinstance(executable, CpuExecutable)
    assert executable.expert_loads[0].tolist() == [30, 30, 30, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("name", ["f32", "int4"])
@pytest.mark.parametrize("isa", supported_isas())
def test_weights_of_experts_that_no_row_chose_are_not_read(isa: str, name: str) -> None:
    logits = np.tile(np.arange(12, dtype=np.float32), (MOST_ROWS, 1))  # all choose 9, 10, 11
    clean = weights(SHAPE, logits, PACKS[name])
    spoilt = dict(clean)
    for part in ("gate", "up", "down"):
        values = clean[part].dequantize()
        values[: 9 * len(values) // 12] = np.inf
        with np.errstate(invalid="ignore"):
            spoilt[part] = PACKS[name](values)
    for rows in (range(2), range(100)):
        results = [computed(CpuBackend(isa).load(program(SHAPE), each, LIMITS), rows) for each in (clean, spoilt)]
        assert np.array_equal(results[0], results[1])


@pytest.mark.parametrize("isa", supported_isas())
@pytest.mark.parametrize("scoring", ["softmax", "sigmoid"])
def test_logits_that_are_no_numbers_spoil_their_own_row_alone(isa: str, scoring: Literal["softmax", "sigmoid"]) -> None:
    shape = replace(SHAPE, routing=Routing(12, 3, scoring, num_groups=4, top_groups=2), has_bias=True)
    logits = spread_logits(shape)
    expected = computed(load(CpuBackend(isa), shape, logits), range(40))
    logits[0] = np.nan
    logits[7, 3:] = np.inf
    logits[8, 2] = np.nan
    logits[39] = -np.inf
    others = [row for row in range(40) if row not in (0, 7, 8, 39)]
    executable = load(CpuBackend(isa), shape, logits)

    assert np.array_equal(computed(executable, range(40))[others], expected[others])
    assert isinstance(executable, CpuExecutable)
    assert executable.expert_loads[0].sum() == 40 * 3


@pytest.mark.parametrize("isa", supported_isas())
def test_gate_up_and_down_may_have_different_formats(isa: str) -> None:
    logits = spread_logits(SHAPE)
    for formats in (("int4", "int8", "f32"), ("f16", "int8", "int4"), ("int8", "bf16", "int8")):
        mixed = {
            part: weights(SHAPE, logits, PACKS[name])[part]
            for part, name in zip(("gate", "up", "down"), formats, strict=True)
        }
        parts = weights(SHAPE, logits, from_float32) | mixed
        for rows in (range(3), range(60)):
            results = [
                computed(backend.load(program(SHAPE), parts, LIMITS), rows)
                for backend in (ReferenceBackend(), CpuBackend(isa))
            ]
            assert error(results[1], results[0]) < TOLERANCE["int8"]


@pytest.mark.parametrize("isa", supported_isas())
def test_loads_count_every_choice_since_the_beginning(isa: str) -> None:
    executable = load(CpuBackend(isa), SHAPE, spread_logits(SHAPE))
    assert isinstance(executable, CpuExecutable)
    assert executable.expert_loads[0].tolist() == [0] * 12
    computed(executable, range(100))
    first = executable.expert_loads[0]
    computed(executable, range(3))
    (second,) = executable.expert_loads

    assert (first.sum(), second.sum()) == (300, 309)
    assert (second >= first).all()
