import numpy as np
import pytest

from benchmarks.quality.variants import VARIANTS, ConvertedTensors, bfloat16
from tailrace.ops.packed import from_float32

VALUES = np.random.default_rng(0).normal(size=(8, 64)).astype(np.float32)
TENSORS = {"matrix": from_float32(VALUES), "vector": from_float32(VALUES[0])}


@pytest.mark.parametrize(
    ("name", "largest_error"), [("as shipped", 0.0), ("bf16", 2**-8), ("int8", 0.02), ("int4", 0.3)]
)
def test_a_variant_keeps_values_as_well_as_its_format_can(name: str, largest_error: float) -> None:
    converted = ConvertedTensors(TENSORS, VARIANTS[name])

    error = np.abs(converted["matrix"].dequantize() - VALUES) / np.maximum(np.abs(VALUES), 1)
    assert error.max() <= largest_error
    assert name == "as shipped" or error.max() > 0
    assert converted["vector"] is TENSORS["vector"]
    assert set(converted) == set(TENSORS)


def test_bfloat16_rounds_to_the_nearest_and_ties_to_even() -> None:
    ulp = 2.0**-7  # of bfloat16 at one
    values = np.array([[1 + 0.5 * ulp, 1 + 1.5 * ulp, 1 + 0.51 * ulp, 1 + 0.49 * ulp]], np.float32)

    assert bfloat16(from_float32(values)).dequantize().tolist() == [[1, 1 + 2 * ulp, 1 + ulp, 1]]
