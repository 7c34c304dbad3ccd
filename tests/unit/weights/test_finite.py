"""NaN and infinity are found in every format, wherever they are."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.ops.packed import PackedTensor, WeightFormat, quantize_int4, quantize_int8
from tailrace.weights import finite
from tailrace.weights.finite import is_finite
from tests.unit.weights.model_files import to_bf16

SHAPES = [(1,), (300,), (1, 32), (7, 64), (33, 96)]
BAD = [np.nan, -np.nan, np.inf, -np.inf]


def tensor(values: NDArray[np.float32], format_: WeightFormat) -> PackedTensor:
    with np.errstate(over="ignore"):
        stored: dict[str, NDArray[Any]] = {"f32": values, "bf16": to_bf16(values), "f16": values.astype(np.float16)}
    return PackedTensor(values.shape, format_, stored[format_])


def largest(format_: WeightFormat) -> np.float32:
    bits = {"f32": 0x7F7FFFFF, "bf16": 0x7F7F0000, "f16": 0x477FE000}[format_]
    return np.uint32(bits).view(np.float32)


@pytest.mark.parametrize("format_", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("alone_values", [0, 1 << 23], ids=["in threads", "alone"])
def test_one_value_that_is_not_finite_is_found_anywhere(
    monkeypatch: pytest.MonkeyPatch, format_: WeightFormat, shape: tuple[int, ...], alone_values: int
) -> None:
    monkeypatch.setattr(finite, "_PIECE_VALUES", 64)
    monkeypatch.setattr(finite, "_ALONE_VALUES", alone_values)
    values = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    values.flat[0], values.flat[-1] = largest(format_), -largest(format_)
    assert is_finite(tensor(values, format_))
    for place in {0, values.size // 2, values.size - 1}:
        for bad in BAD:
            damaged = values.copy()
            damaged.flat[place] = bad
            assert not is_finite(tensor(damaged, format_)), (place, bad)


def test_every_bf16_and_every_float16_is_told_as_numpy_tells_it() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    floats = (bits.astype(np.uint32) << 16).view(np.float32)
    for number in range(0, 1 << 16, 7):
        one = bits[number : number + 1]
        assert is_finite(PackedTensor((1,), "bf16", one)) == np.isfinite(floats[number])
        assert is_finite(PackedTensor((1,), "f16", one.view(np.float16))) == np.isfinite(one.view(np.float16)[0])


@pytest.mark.parametrize("quantize", [quantize_int8, quantize_int4])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("bad", BAD)
def test_a_scale_or_offset_that_is_not_finite_is_found(
    quantize: Callable[[NDArray[np.float32]], PackedTensor], dtype: str, bad: float
) -> None:
    packed = quantize(np.random.default_rng(2).normal(size=(5, 64)).astype(np.float32))
    parts = {
        name: part.astype(dtype)
        for name, part in (("scales", packed.scales), ("offsets", packed.offsets))
        if part is not None
    }
    assert is_finite(PackedTensor(packed.shape, packed.format, packed.values, **parts))
    for name, part in parts.items():
        damaged = part.copy()
        damaged[3, 1] = bad
        assert not is_finite(PackedTensor(packed.shape, packed.format, packed.values, **{**parts, name: damaged}))


def test_a_scale_whose_products_are_infinite_is_found() -> None:
    codes = np.full((1, 1, 32), 12, np.int8)
    for exponent, is_fine in ((119, True), (124, False), (127, False)):
        scales = np.array([[2.0**exponent]], np.float32)
        assert is_finite(PackedTensor((1, 32), "q8", codes, scales)) is is_fine


def test_strided_and_unaligned_views_are_looked_at_as_they_are() -> None:
    raw = np.zeros(3 * 34 + 1, np.uint8)
    blocks = raw[1:].reshape(3, 34)
    scales = blocks[:, :2].view(np.float16)
    packed = PackedTensor((3, 32), "q8", blocks[:, None, 2:].view(np.int8), scales)
    assert is_finite(packed)
    scales[2] = np.nan
    assert not is_finite(packed)


def test_looking_takes_no_memory() -> None:
    packed = PackedTensor((1024, 4096), "bf16", np.zeros((1024, 4096), np.uint16))
    tracemalloc.start()
    assert is_finite(packed)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 1 << 18
