"""Against the layout written down slowly: shared facts of the format, a bit at a time."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.quantizing.grid import INT4_WITH_ZERO, INT8, Grid, round_rows
from tailrace.quantizing.pack_quantized import arrays, pieces, quantization_config


def bit_stream(words: NDArray[Any], bits: int, count: int) -> list[int]:
    """The first `count` numbers of a little-endian stream: number i begins at bit i * bits."""
    whole = sum(int(word) % 2**32 << 32 * place for place, word in enumerate(words.tolist()))
    return [whole >> bits * place & 2**bits - 1 for place in range(count)]


def dequantized(stored: dict[str, NDArray[Any]], bits: int) -> NDArray[np.float32]:
    num_rows, num_inputs = stored["weight_shape"].tolist()
    scales = stored["weight_scale"].astype(np.float32)
    middle, groups = 2 ** (bits - 1), num_inputs // 32
    zeros = np.zeros((num_rows, groups), np.int64)
    if "weight_zero_point" in stored:
        for group in range(groups):
            zeros[:, group] = bit_stream(stored["weight_zero_point"][:, group], bits, num_rows)
        zeros -= middle
    out = np.empty((num_rows, num_inputs), np.float32)
    for row in range(num_rows):
        numbers = bit_stream(stored["weight_packed"][row], bits, num_inputs)
        for place, number in enumerate(numbers):
            group = place // 32
            out[row, place] = np.float32(number - middle - zeros[row, group]) * scales[row, group]
    return out


@pytest.mark.parametrize("grid", [INT4_WITH_ZERO, INT8])
@pytest.mark.parametrize("shape", [(8, 32), (13, 96), (1, 64)])
def test_what_is_stored_stands_for_the_rounded_values_bit_for_bit(grid: Grid, shape: tuple[int, int]) -> None:
    values = np.random.default_rng(1).normal(0.1, 1, shape).astype(np.float32)
    rounded = round_rows(lambda begin, end: values[begin:end], shape, grid, "a matrix")
    parts = list(arrays(rounded, grid))
    stored = {piece.suffix: part for piece, part in zip(pieces(shape, grid), parts, strict=True)}

    for piece, part in zip(pieces(shape, grid), parts, strict=True):
        assert part.shape == piece.shape
        assert part.dtype == {"I32": np.int32, "I64": np.int64, "F16": np.float16}[piece.dtype]
        assert part.flags.c_contiguous
    assert np.array_equal(dequantized(stored, grid.bits), rounded.dequantize())


@pytest.mark.parametrize(("grid", "is_symmetric"), [(INT4_WITH_ZERO, False), (INT8, True)])
def test_the_config_says_what_is_stored(grid: Grid, is_symmetric: bool) -> None:
    config = quantization_config(grid, ["lm_head"])
    weights = config["config_groups"]["group_0"]["weights"]

    assert (config["quant_method"], config["format"]) == ("compressed-tensors", "pack-quantized")
    assert config["ignore"] == ["lm_head"]
    assert (weights["num_bits"], weights["symmetric"], weights["group_size"]) == (grid.bits, is_symmetric, 32)
    assert (weights["type"], weights["strategy"]) == ("int", "group")
