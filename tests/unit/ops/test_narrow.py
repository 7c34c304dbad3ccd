"""Native narrowing gives, on every instruction set, the codes and scales that packed.py says, to the bit."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tailrace.ops import narrow as narrowing
from tailrace.ops.cpu import conversion
from tailrace.ops.cpu.backend import supported_isas
from tailrace.ops.packed import GROUP, PackedTensor, quantize_int4, quantize_int8
from tailrace.ops.raw import FloatForm, RawMatrix

QUANTIZE = {"int8": quantize_int8, "int4": quantize_int4}
FORMS: tuple[FloatForm, ...] = ("f32", "f16", "bf16")
BATCH = 16  # groups that are narrowed together
SEEDS = st.integers(0, 1 << 30)

isas = pytest.mark.parametrize("isa", supported_isas())
modes = pytest.mark.parametrize("mode", QUANTIZE)


def room(num_rows: int, num_cols: int, mode: str) -> PackedTensor:
    groups = (num_rows, num_cols // GROUP)
    scales = np.full(groups, np.nan, np.float16)
    if mode == "int8":
        return PackedTensor((num_rows, num_cols), "q8", np.full((*groups, GROUP), 99, np.int8), scales)
    codes = np.full((*groups, GROUP // 2), 99, np.uint8)
    return PackedTensor((num_rows, num_cols), "q4", codes, scales, scales.copy())


def stored(values: NDArray[np.float32], form: FloatForm) -> NDArray[Any]:
    match form:
        case "f32":
            return values
        case "f16":
            return values.astype(np.float16)
        case "bf16":
            return (values.view(np.uint32) >> 16).astype(np.uint16)


def loaded(values: NDArray[Any], form: FloatForm) -> NDArray[np.float32]:
    return (values.astype(np.uint32) << 16).view(np.float32) if form == "bf16" else values.astype(np.float32)


def assert_as_specified(values: NDArray[Any], form: FloatForm, mode: str, isa: str) -> None:
    """`values` as they are stored, whose rows may lie apart."""
    floats = loaded(np.ascontiguousarray(values), form)
    with np.errstate(all="ignore"):
        expected = QUANTIZE[mode](floats)
        loss = np.square((expected.dequantize() - floats).astype(np.float64)).sum()
        total = np.square(floats.astype(np.float64)).sum()
    packed = room(len(values), values.shape[1], mode)
    found = conversion.narrow(RawMatrix.of_floats(form, values), packed, isa)
    parts = [part for part in (expected.scales, expected.offsets) if part is not None]
    if not all(np.isfinite(part).all() for part in parts):
        assert not np.isfinite(found).all()
        return
    np.testing.assert_array_equal(packed.values, expected.values)
    for part, wanted in ((packed.scales, expected.scales), (packed.offsets, expected.offsets)):
        if part is not None and wanted is not None:
            np.testing.assert_array_equal(part.view(np.uint16), wanted.astype(np.float16).view(np.uint16))
    # Where next to nothing is lost, float32 rounds that away, or in.
    assert found[0] == pytest.approx(loss, rel=1e-4, abs=1e-9 * total + 1e-30)
    assert found[1] == pytest.approx(total, rel=1e-4, abs=1e-30)


def uneven(rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float32]:
    """Groups of very different magnitudes: from below the least subnormal float16 to beyond the largest, and zeros."""
    groups = (shape[0], shape[1] // GROUP, GROUP)
    magnitudes = np.exp2(rng.integers(-48, 22, (*groups[:2], 1)).astype(np.float32))
    values = rng.normal(size=groups).astype(np.float32) * magnitudes
    shifts = rng.choice([0.0, 0.0, 3.0, -3.0, 1000.0], (*groups[:2], 1)).astype(np.float32)
    values += shifts * magnitudes * (magnitudes < 2**8)
    values[rng.random(groups) < 0.1] = 0.0
    values[rng.random(groups) < 0.05] = -0.0
    values[rng.random(groups[:2]) < 0.1] = rng.choice([0.0, -0.0, 1e-45, -1e-38, 0.3, -60001.0, 7e4])
    return values.reshape(shape)


@isas
@modes
@given(st.sampled_from(FORMS), st.tuples(st.integers(0, 4), st.integers(1, 2 * BATCH + 2), st.integers(0, 5)), SEEDS)
@example("f32", (1, BATCH, 0), 0)
@settings(max_examples=100, deadline=None)
def test_rows_of_any_number_and_distance(
    isa: str, mode: str, form: FloatForm, sizes: tuple[int, int, int], seed: int
) -> None:
    num_rows, num_groups, gap = sizes
    rng = np.random.default_rng(seed)
    apart = uneven(rng, (num_rows, (num_groups + gap) * GROUP))
    with np.errstate(over="ignore"):
        values = stored(apart, form)[:, gap * GROUP :]
    values = values[np.isfinite(loaded(np.ascontiguousarray(values), form)).all(axis=1)]
    assert_as_specified(values, form, mode, isa)


@isas
@modes
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=GROUP), st.booleans())
@settings(max_examples=100, deadline=None)
def test_whatever_values_a_group_has(isa: str, mode: str, some: list[float], is_first: bool) -> None:
    values = np.resize(np.array(some, np.float32), (1, 2 * GROUP))
    values[:, GROUP if is_first else 0 :][:, :GROUP] = 0.25
    assert_as_specified(values, "f32", mode, isa)


@isas
@modes
def test_what_lies_in_the_middle_of_two_codes_is_rounded_as_a_division_rounds(isa: str, mode: str) -> None:
    """For every scale that a float16 can be: halves of steps, and the floats beside them."""
    scales = np.arange(1, 0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    top = 127 if mode == "int8" else 15
    steps = np.linspace(0.5, top - 0.5, GROUP - 2, dtype=np.float32).round(0) + np.float32(0.5)
    middles = scales[:, None] * np.minimum(steps, top - 0.5)
    beside = np.nextafter(middles, np.random.default_rng(0).choice([0, 1e9], middles.shape).astype(np.float32))
    for inner in (middles, beside):
        values = np.concatenate([np.zeros_like(scales)[:, None], inner, scales[:, None] * np.float32(top)], axis=1)
        assert_as_specified(values, "f32", mode, isa)


@isas
@modes
def test_all_bits_of_narrow_floats(isa: str, mode: str) -> None:
    """All bfloat16 that are numbers, ascending: neighbours share groups; so do what lies far apart, shuffled."""
    bits = np.arange(1 << 16, dtype=np.uint16)
    bits = bits[np.isfinite(loaded(bits, "bf16"))]
    for order in (bits, np.random.default_rng(0).permutation(bits)):
        values = order[: len(order) // GROUP * GROUP].reshape(-1, GROUP)
        for rows in np.array_split(values, 7):
            assert_as_specified(rows, "bf16", mode, isa)
        calm = values[np.abs(loaded(values, "bf16")).max(axis=1) < 6e4]
        assert_as_specified(calm, "bf16", mode, isa)


@isas
@modes
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 17, 40, 63])
def test_what_is_no_number_shows_in_the_squares(isa: str, mode: str, wrong: float, place: int) -> None:
    values = np.ones((3, 2 * GROUP), np.float32)
    values[1, place] = wrong
    found = conversion.narrow(RawMatrix.of_floats("f32", values), room(3, 2 * GROUP, mode), isa)
    assert not np.isfinite(found).all()


@modes
def test_nothing_is_promised_where_there_is_no_native_code(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    raw = RawMatrix.of_floats("f32", np.ones((2, GROUP), np.float32))
    assert narrowing.is_native()
    assert narrowing.narrow(raw, room(2, GROUP, mode)) == pytest.approx((0.0, 64.0), abs=1e-3)
    monkeypatch.setattr(narrowing, "_conversion", lambda: None)
    assert not narrowing.is_native()
    assert narrowing.narrow(raw, room(2, GROUP, mode)) is None
    assert narrowing.widen(raw) is None


@modes
@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1e9])
def test_nothing_is_returned_for_what_cannot_be_narrowed(mode: str, wrong: float) -> None:
    values = np.full((2, GROUP), wrong, np.float32)
    values[0] = 0.0
    values[1, 0] = 0.0
    assert narrowing.narrow(RawMatrix.of_floats("f32", values), room(2, GROUP, mode)) is None


def test_room_of_another_shape_is_refused() -> None:
    raw = RawMatrix.of_floats("f32", np.ones((2, 2 * GROUP), np.float32))
    for num_rows, num_cols in ((3, 2 * GROUP), (2, GROUP), (1, 2 * GROUP)):
        for mode in QUANTIZE:
            with pytest.raises(ValueError, match="another shape"):
                conversion.narrow(raw, room(num_rows, num_cols, mode))
