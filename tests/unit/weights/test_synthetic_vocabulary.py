import pytest

from tailrace.weights.synthetic_vocabulary import synthetic_vocabulary


def test_it_has_as_many_tokens_as_the_model_and_no_two_alike() -> None:
    vocabulary = synthetic_vocabulary(1024)
    assert len(set(vocabulary.tokens)) == len(vocabulary.token_types) == 1024


def test_merges_join_tokens_that_are_there_to_tokens_that_are_there() -> None:
    vocabulary = synthetic_vocabulary(1024)
    known = set(vocabulary.tokens)
    for merge in vocabulary.merges:
        left, right = merge.split(" ")
        assert {left, right, left + right} <= known


def test_begin_and_end_are_control_tokens_behind_all_others() -> None:
    vocabulary = synthetic_vocabulary(1024)
    assert vocabulary.tokens[-2:] == ["<begin>", "<end>"]
    assert set(vocabulary.token_types[:-2]) == {1}
    assert vocabulary.token_types[-2:] == [3, 3]


def test_too_small_a_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match="a vocabulary of 256 tokens holds no"):
        synthetic_vocabulary(256)
