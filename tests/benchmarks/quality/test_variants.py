import numpy as np
import pytest

from benchmarks.quality.variants import ConvertedTensors, bfloat16, read_variant
from tailrace.ops.packed import from_float32

VALUES = np.random.default_rng(0).normal(size=(8, 64)).astype(np.float32)
TENSORS = {"layers.0.q": from_float32(VALUES), "embed": from_float32(VALUES), "norm": from_float32(VALUES[0])}


@pytest.mark.parametrize(
    ("name", "largest_error"), [("as shipped", 0.0), ("bf16", 2**-8), ("int8", 0.02), ("int4", 0.3)]
)
def test_a_variant_keeps_values_as_well_as_its_format_can(name: str, largest_error: float) -> None:
    converted = ConvertedTensors(TENSORS, read_variant(name))

    error = np.abs(converted["layers.0.q"].dequantize() - VALUES) / np.maximum(np.abs(VALUES), 1)
    assert error.max() <= largest_error
    assert name == "as shipped" or error.max() > 0
    assert converted["norm"] is TENSORS["norm"]
    assert set(converted) == set(TENSORS)


def test_classes_are_narrowed_as_a_map_says() -> None:
    converted = ConvertedTensors(TENSORS, read_variant("int4,embed=float"))

    assert converted["layers.0.q"].format == "q4"
    np.testing.assert_array_equal(converted["embed"].dequantize(), VALUES)
    assert ConvertedTensors(TENSORS, read_variant("int4"))["embed"].format == "q8"


def test_bfloat16_rounds_to_the_nearest_and_ties_to_even() -> None:
    ulp = 2.0**-7  # of bfloat16 at one
    values = np.array([[1 + 0.5 * ulp, 1 + 1.5 * ulp, 1 + 0.51 * ulp, 1 + 0.49 * ulp]], np.float32)

    assert bfloat16(from_float32(values)).dequantize().tolist() == [[1, 1 + 2 * ulp, 1 + ulp, 1]]
