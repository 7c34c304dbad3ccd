"""Each formula of the reference against its definition, written out with scalars."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.ops.program import RopeSpec
from tailrace.ops.reference_math import attention, layer_norm, matmul, rms_norm, sigmoid, softmax, swiglu, turn

Array = NDArray[np.float32]


def random(*shape: int) -> Array:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def test_rms_norm_divides_by_the_root_mean_square_and_multiplies_by_the_weight() -> None:
    out = rms_norm(np.array([[3.0, 4.0]], np.float32), np.array([2.0, 1.0], np.float32), eps=0.5)

    root = math.sqrt((9 + 16) / 2 + 0.5)
    assert out.dtype == np.float32
    assert out[0] == pytest.approx([2 * 3 / root, 4 / root])


def test_rms_norm_of_zeros_is_zero() -> None:
    assert not rms_norm(np.zeros((1, 4), np.float32), np.ones(4, np.float32), eps=1e-6).any()


def test_layer_norm_takes_the_mean_away_and_adds_a_bias() -> None:
    x, weight, bias = (np.array(values, np.float32) for values in ([[1.0, 5.0]], [2.0, 1.0], [0.5, -1.0]))
    out = layer_norm(x, weight, bias, eps=0.25)

    deviation = math.sqrt(4 + 0.25)  # of -2 and 2 around 3
    assert out.dtype == np.float32
    assert out[0] == pytest.approx([2 * -2 / deviation + 0.5, 2 / deviation - 1], abs=1e-6)


def test_matmul_is_rows_times_transposed_weight() -> None:
    x, weight = random(3, 5), random(4, 5)
    expected = [[sum(x[t, i] * weight[o, i] for i in range(5)) for o in range(4)] for t in range(3)]

    assert matmul(x, weight) == pytest.approx(np.array(expected), abs=1e-5)


def test_matmul_gives_a_row_the_same_bits_alone_and_among_others() -> None:
    x, weight = random(33, 200), random(170, 200)
    alone = np.concatenate([matmul(x[t : t + 1], weight) for t in range(33)])

    assert np.array_equal(matmul(x, weight), alone)


def test_swiglu_gates_the_second_half_with_the_first() -> None:
    out = swiglu(np.array([[2.0, -1.0, 3.0, 5.0]], np.float32))

    assert out.dtype == np.float32
    assert out[0] == pytest.approx([2 / (1 + math.exp(-2)) * 3, -1 / (1 + math.exp(1)) * 5])


def test_sigmoid_saturates_without_overflow() -> None:
    assert sigmoid(np.array([-200.0, 0.0, 200.0], np.float32)).tolist() == [pytest.approx(0, abs=1e-38), 0.5, 1.0]


def test_softmax_sums_to_one_for_large_scores() -> None:
    assert softmax(np.array([1e4, 1e4 - math.log(3)], np.float32)) == pytest.approx([0.75, 0.25], rel=1e-3)


@pytest.mark.parametrize(
    ("interleaved", "pairs"), [(True, [(0, 1), (2, 3)]), (False, [(0, 2), (1, 3)])], ids=["neighbours", "halves"]
)
def test_turn_rotates_each_pair_by_position_times_frequency(interleaved: bool, pairs: list[tuple[int, int]]) -> None:
    heads, positions = random(2, 3, 6), np.array([5, 9])
    rope = RopeSpec(inv_freq=(1.0, 0.25), scale=1.5, interleaved=interleaved)
    out = turn(heads, positions, rope)

    assert out.dtype == np.float32
    for t, position in enumerate(positions):
        for (i, j), frequency in zip(pairs, rope.inv_freq, strict=True):
            cos, sin = 1.5 * math.cos(position * frequency), 1.5 * math.sin(position * frequency)
            assert out[t, :, i] == pytest.approx(heads[t, :, i] * cos - heads[t, :, j] * sin, abs=1e-5)
            assert out[t, :, j] == pytest.approx(heads[t, :, j] * cos + heads[t, :, i] * sin, abs=1e-5)
    assert np.array_equal(out[..., 4:], heads[..., 4:])  # beyond the rotary part nothing turns


def test_turn_leaves_what_it_was_given() -> None:
    heads = random(1, 1, 4)
    before = heads.copy()
    turn(heads, np.array([3]), RopeSpec((1.0, 0.5)))

    assert np.array_equal(heads, before)


def test_turned_products_depend_on_the_distance_alone() -> None:
    q, k = random(1, 1, 8), random(2, 1, 8)[1:]
    rope = RopeSpec((1.0, 0.3, 0.1, 0.01))

    def product(q_position: int, k_position: int) -> float:
        turned = turn(q, np.array([q_position]), rope) * turn(k, np.array([k_position]), rope)
        return float(turned.sum())

    assert product(17, 12) == pytest.approx(product(105, 100), abs=1e-4)


def test_attention_weighs_values_by_the_softmax_of_scaled_products() -> None:
    q, keys, values = random(4, 6), random(5, 2, 6), random(6, 2, 6)[1:]
    out = attention(q, keys, values, scale=0.3)

    assert out.dtype == np.float32
    for head in range(4):
        group = head // 2  # two query heads share a KV head, side by side
        scores = [0.3 * float(q[head] @ keys[s, group]) for s in range(5)]
        weights = [math.exp(score) for score in scores]
        expected = sum(weight * values[s, group] for s, weight in enumerate(weights)) / sum(weights)
        assert out[head] == pytest.approx(expected, abs=1e-5)


def test_attention_over_one_position_is_its_value() -> None:
    values = random(1, 2, 4)

    assert np.array_equal(attention(random(2, 4), random(1, 2, 4), values, scale=1.0), values[0])
