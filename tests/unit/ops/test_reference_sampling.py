"""The sampling specification: the generator against published vectors, each step against hand-made distributions."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tailrace.ops import reference_sampling
from tailrace.ops.api import MAX_TOP_LOGPROBS, SamplingInputs
from tailrace.ops.reference_sampling import philox4x32, sample, uniform
from tests.support.steps import sampling

Array = NDArray[np.float32]


def logits_of(*probabilities: float) -> Array:
    return np.log(np.array(probabilities, np.float32))


def repeated(row: Array, count: int) -> Array:
    return np.tile(row, (count, 1))


def drawn(row: Array, wanted: SamplingInputs) -> set[int]:
    """Every token that came up in the draws that `wanted` has rows for."""
    return set(sample(repeated(row, len(wanted.seed)), wanted).token_ids.tolist())


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
    ids=["zeros", "ones", "digits of pi"],
)
def test_philox_gives_the_known_answers_of_random123(
    counter: tuple[int, int, int, int], key: tuple[int, int], words: tuple[int, int, int, int]
) -> None:
    assert philox4x32(counter, key) == words


def test_uniform_takes_its_53_bits_from_the_first_two_words() -> None:
    assert uniform(0, 0) == ((0x6627E8D5 << 21) ^ (0xE169C58D >> 11)) / 2**53


def test_uniform_uses_all_64_bits_of_seed_and_position() -> None:
    draws = {uniform(seed, position) for seed in (1, 1 << 32, 1 << 63) for position in (1, 1 << 32, 1 << 62)}

    assert len(draws) == 9


def test_uniform_is_even() -> None:
    draws = np.array([uniform(11, position) for position in range(4000)])

    assert draws.min() >= 0.0
    assert draws.max() < 1.0
    counts, _ = np.histogram(draws, bins=10, range=(0, 1))
    assert counts.min() > 340  # 400 expected, standard deviation 19
    assert counts.max() < 460


def test_greedy_takes_the_lowest_id_among_the_best() -> None:
    row = np.array([1.0, 3.0, 3.0, 2.0], np.float32)

    assert sample(row[None], sampling(1, temperature=0.0)).token_ids.tolist() == [1]


def test_draws_follow_the_distribution() -> None:
    count = 3000
    ids = sample(repeated(logits_of(0.5, 0.3, 0.2), count), sampling(count, seed=5)).token_ids

    assert np.bincount(ids, minlength=3) / count == pytest.approx([0.5, 0.3, 0.2], abs=0.03)


def test_temperature_divides_the_logits() -> None:
    count = 3000
    ids = sample(repeated(logits_of(0.8, 0.2), count), sampling(count, temperature=2.0)).token_ids

    assert np.mean(ids) == pytest.approx(1 / 3, abs=0.03)  # the square roots of 0.8 and 0.2 are 2 : 1


def test_a_draw_depends_on_seed_and_position_alone() -> None:
    rows = np.random.default_rng(3).normal(size=(16, 50)).astype(np.float32)
    together = sample(rows, sampling(16, seed=9, first_position=100)).token_ids
    alone = [sample(rows[i : i + 1], sampling(1, seed=9, first_position=100 + i)).token_ids[0] for i in range(16)]

    assert together.tolist() == alone


def test_the_first_candidate_above_the_draw_is_taken_best_first() -> None:
    row = logits_of(0.2, 0.5, 0.3)
    for position in range(50):
        u = uniform(1, position)
        expected = 1 if u < 0.5 else 2 if u < 0.8 else 0
        assert sample(row[None], sampling(1, seed=1, first_position=position)).token_ids[0] == expected


def test_a_draw_on_the_bound_of_a_candidate_takes_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_sampling, "uniform", lambda seed, position: 0.5)

    assert sample(np.zeros((1, 2), np.float32), sampling(1)).token_ids[0] == 1


def test_top_k_keeps_the_best_and_the_lower_ids_among_equals() -> None:
    assert drawn(logits_of(0.1, 0.25, 0.25, 0.25, 0.15), sampling(400, top_k=2)) == {1, 2}


def test_top_p_keeps_the_smallest_set_that_reaches_it() -> None:
    assert drawn(logits_of(0.5, 0.25, 0.125, 0.125), sampling(400, top_p=0.74)) == {0, 1}


def test_top_p_counts_the_mass_that_top_k_left() -> None:
    # 0.4, 0.3 of 0.7 left: 0.4 is 57 % of it, enough for 0.5; of the whole it would not be.
    assert drawn(logits_of(0.4, 0.3, 0.2, 0.1), sampling(400, top_k=2, top_p=0.5)) == {0}


def test_top_p_of_zero_keeps_the_best() -> None:
    assert drawn(logits_of(0.3, 0.4, 0.3), sampling(400, top_p=0.0)) == {1}


def test_min_p_is_relative_to_the_best() -> None:
    assert drawn(logits_of(0.5, 0.26, 0.24), sampling(400, min_p=0.5)) == {0, 1}


def test_repetition_penalty_divides_positive_and_multiplies_negative_logits_once_a_token() -> None:
    row = np.array([2.0, 1.5, -1.0, -1.5], np.float32)

    def greedy(bias: list[tuple[int, float]]) -> int:
        wanted = sampling(
            1, temperature=0.0, repetition_penalty=2.0, prompt_ids=[0, 0, 0], output_ids=[2, 2], bias=bias
        )
        return int(sample(row[None], wanted).token_ids[0])

    assert greedy([]) == 1  # 2.0 became 1.0, however often it was seen
    assert greedy([(1, -0.6)]) == 0  # and not less: 1.0 beats 0.9
    assert greedy([(0, -9.0), (1, -9.0)]) == 3  # -1.0 became -2.0


def test_frequency_penalty_counts_the_output_alone() -> None:
    row = np.array([2.0, 1.0, 0.0], np.float32)

    def greedy(penalty: float) -> int:
        wanted = sampling(1, temperature=0.0, frequency_penalty=penalty, prompt_ids=[0, 0, 0, 0], output_ids=[0, 0])
        return int(sample(row[None], wanted).token_ids[0])

    assert greedy(0.49) == 0
    assert greedy(0.51) == 1


def test_presence_penalty_is_taken_once_for_what_was_generated() -> None:
    row = np.array([2.0, 1.0, 0.0], np.float32)

    seen = sampling(1, temperature=0.0, presence_penalty=1.1, output_ids=[0, 0, 0], prompt_ids=[1])
    assert sample(row[None], seen).token_ids[0] == 1
    once = sampling(1, temperature=0.0, presence_penalty=0.9, output_ids=[0, 0, 0], prompt_ids=[1])
    assert sample(row[None], once).token_ids[0] == 0


def test_a_bias_is_added_after_the_penalties_and_minus_infinity_forbids() -> None:
    row = logits_of(0.9, 0.06, 0.04)

    assert drawn(row, sampling(400, bias=[(0, -np.inf)])) == {1, 2}
    raised = sampling(1, temperature=0.0, repetition_penalty=2.0, prompt_ids=[0], bias=[(0, 0.6)])
    assert sample(np.ones((1, 2), np.float32), raised).token_ids[0] == 0  # 1 / 2 + 0.6, not (1 + 0.6) / 2


def test_rows_use_their_own_part_of_the_ragged_arrays() -> None:
    row = np.array([2.0, 1.9, 0.0], np.float32)
    wanted = replace(
        sampling(2, temperature=0.0, presence_penalty=1.0),
        history_starts=np.array([0, 0, 1], np.int32),
        history_ids=np.array([0], np.int32),
    )

    assert sample(repeated(row, 2), wanted).token_ids.tolist() == [0, 1]


def test_logprobs_are_the_models_own_whatever_changes_the_draw() -> None:
    row = logits_of(0.5, 0.3, 0.2)
    wanted = sampling(1, temperature=0.3, bias=[(0, -np.inf), (1, -np.inf)], num_logprobs=2, top_k=1)
    out = sample(row[None], wanted)

    assert out.token_ids[0] == 2
    assert np.exp(out.logprobs[0]) == pytest.approx(0.2, rel=1e-6)
    assert out.top_ids[0, :2].tolist() == [0, 1]
    assert np.exp(out.top_logprobs[0, :2]) == pytest.approx([0.5, 0.3], rel=1e-6)


def test_logprobs_stop_at_the_number_wanted_the_limit_and_the_vocabulary() -> None:
    wide, narrow = np.zeros((1, 100), np.float32), np.zeros((1, 3), np.float32)

    assert sample(wide, sampling(1, num_logprobs=99)).top_ids[0].tolist() == list(range(MAX_TOP_LOGPROBS))
    assert sample(narrow, sampling(1, num_logprobs=5)).top_logprobs[0, 3:].tolist() == [0.0] * (MAX_TOP_LOGPROBS - 3)
    assert sample(wide, sampling(1, num_logprobs=-1)).logprobs[0] == 0.0


def test_no_samples_give_no_tokens() -> None:
    assert sample(np.zeros((0, 10), np.float32), sampling(0)).token_ids.shape == (0,)


def test_huge_logits_do_not_overflow() -> None:
    row = np.array([3e4, 2e4, -3e4], np.float32)
    out = sample(row[None], sampling(1, temperature=0.01, num_logprobs=1))

    assert out.token_ids[0] == 0
    assert out.logprobs[0] == 0.0


def test_when_everything_is_forbidden_the_lowest_id_is_taken() -> None:
    bias = [(token, -np.inf) for token in range(3)]

    assert sample(np.zeros((1, 3), np.float32), sampling(1, bias=bias)).token_ids[0] == 0


@settings(max_examples=60)
@given(
    st.builds(
        sampling,
        st.just(1),
        seed=st.integers(0, 2**64 - 1),
        first_position=st.integers(0, 2**40),
        temperature=st.floats(0.05, 5.0),
        top_p=st.floats(0.0, 1.0),
        top_k=st.integers(0, 40),
        min_p=st.floats(0.0, 1.0),
    )
)
def test_every_draw_is_one_of_the_best_that_its_limits_allow(wanted: SamplingInputs) -> None:
    row = np.random.default_rng(int(wanted.position[0])).normal(scale=3, size=30).astype(np.float32)
    token = int(sample(row[None], wanted).token_ids[0])

    rank = int((row > row[token]).sum())
    assert rank < (wanted.top_k[0] or len(row))
    weights = np.exp((row - row.max()) / wanted.temperature[0])
    assert weights[token] >= wanted.min_p[0] * (1 - 1e-5)
    assert weights[row > row[token]].sum() <= wanted.top_p[0] * weights.sum() * (1 + 1e-5)
