from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.kvcache.forecast import ForecastConfig
from tailrace.kvcache.warm import PrefixTally, TallyConfig

PIECE = 2
HOUR_S = 3600.0
PROMPTS = st.lists(
    st.tuples(st.sampled_from(["", "tenant"]), st.lists(st.integers(0, 2), max_size=13)), min_size=1, max_size=80
)


def tally_of(max_pieces: int = 1000, half_life_s: float = 6 * HOUR_S, max_prompt_tokens: int = 1000) -> PrefixTally:
    return PrefixTally(TallyConfig(max_pieces, PIECE, max_prompt_tokens, half_life_s))


def beginnings(token_ids: list[int]) -> list[tuple[int, ...]]:
    return [tuple(token_ids[:end]) for end in range(PIECE, len(token_ids) + 1, PIECE)]


@given(PROMPTS, st.integers(1, 30))
def test_counts_are_never_too_low_and_too_high_by_no_more_than_they_say(
    prompts: list[tuple[str, list[int]]], max_pieces: int
) -> None:
    tally, true, num_counted = tally_of(max_pieces), Counter[tuple[str, tuple[int, ...]]](), 0
    for salt, token_ids in prompts:
        tally.count(salt, token_ids, 0.0)
        true.update((salt, beginning) for beginning in beginnings(token_ids))
        num_counted += len(beginnings(token_ids))
        assert len(tally) <= max_pieces
    for (salt, beginning), count in true.items():
        num_uses, error = tally.num_uses(salt, beginning, 0.0)
        if num_uses:
            assert count <= num_uses <= count + error
            assert error <= num_counted / max_pieces
        else:
            assert count <= num_counted / max_pieces, "what is used so often must be known"


@given(PROMPTS, st.integers(1, 30))
def test_a_beginning_is_counted_no_less_than_what_continues_it(
    prompts: list[tuple[str, list[int]]], max_pieces: int
) -> None:
    tally = tally_of(max_pieces)
    for at_s, (salt, token_ids) in enumerate(prompts):
        tally.count(salt, token_ids, HOUR_S * at_s)
        now_s = HOUR_S * at_s
        counts = [tally.num_uses(salt, beginning, now_s)[0] for beginning in beginnings(token_ids)]
        assert counts == sorted(counts, reverse=True)


@given(PROMPTS, st.integers(0, 12), st.integers(1, 40))
def test_the_hottest_are_known_beginnings_that_keep_the_bound_and_do_not_contain_each_other(
    prompts: list[tuple[str, list[int]]], max_tokens: int, max_pieces: int
) -> None:
    tally = tally_of(max_pieces)
    for salt, token_ids in prompts:
        tally.count(salt, token_ids, 0.0)
    hottest = tally.hottest(max_tokens, 0.0, HOUR_S)
    seen = {(salt, beginning) for salt, token_ids in prompts for beginning in beginnings(token_ids)}
    chosen = {(prefix.salt, prefix.token_ids) for prefix in hottest}
    assert chosen <= seen
    assert len({(salt, one) for salt, ids in chosen for one in beginnings(list(ids))}) * PIECE <= max_tokens
    assert not any(
        one != other and salt == other_salt and other[: len(one)] == one
        for salt, one in chosen
        for other_salt, other in chosen
    )
    assert [prefix.saved_tokens for prefix in hottest] == sorted((one.saved_tokens for one in hottest), reverse=True)


def test_what_came_once_is_a_hash_and_no_prompt() -> None:
    tally = tally_of()
    tally.count("", [1, 2, 3, 4], 0.0)
    assert tally.hottest(100, 0.0, HOUR_S) == []
    tally.count("", [1, 2, 9, 9], 0.0)
    assert [prefix.token_ids for prefix in tally.hottest(100, 0.0, HOUR_S)] == [(1, 2)]


def test_uses_and_length_both_count() -> None:
    tally = tally_of()
    for _ in range(5):
        tally.count("", [1, 1], 0.0)
    for _ in range(3):
        tally.count("", [2] * 8, 0.0)
    hottest = tally.hottest(100, 0.0, HOUR_S)
    assert [prefix.token_ids for prefix in hottest] == [(2,) * 8, (1, 1)]
    assert hottest[0].saved_tokens / hottest[1].saved_tokens == pytest.approx(3 * 8 / (5 * 2))


def test_tenants_do_not_share_a_count() -> None:
    tally = tally_of()
    for salt in ("a", "b", "b"):
        tally.count(salt, [1, 2], 0.0)
    assert [prefix.salt for prefix in tally.hottest(100, 0.0, HOUR_S)] == ["b"]


def test_uses_fade_by_half_in_a_half_life_however_long_it_runs() -> None:
    tally = tally_of(half_life_s=HOUR_S)
    for hour in range(200):
        tally.count("", [1, 2], HOUR_S * hour)
    assert tally.num_uses("", [1, 2], HOUR_S * 199)[0] == pytest.approx(2.0)
    assert tally.num_uses("", [1, 2], HOUR_S * 200)[0] == pytest.approx(1.0)


def test_old_use_makes_way_for_new_use() -> None:
    tally = tally_of(max_pieces=2, half_life_s=HOUR_S)
    for _ in range(100):
        tally.count("", [1, 1], 0.0)
    for _ in range(3):
        tally.count("", [2, 2], 20 * HOUR_S)
        tally.count("", [3, 3], 20 * HOUR_S)
    assert tally.num_uses("", [1, 1], 20 * HOUR_S) == (0.0, 0.0)


def test_what_nobody_uses_any_more_is_forgotten_even_where_there_is_room() -> None:
    tally = tally_of(half_life_s=HOUR_S)
    tally.count("", [1, 1, 1, 1], 0.0)
    for _ in range(8):
        tally.count("", [1, 1, 2, 2], 0.0)
    tally.hottest(100, 3.9 * HOUR_S, HOUR_S)
    assert len(tally) == 3
    tally.hottest(100, 4.1 * HOUR_S, HOUR_S)
    assert tally.num_uses("", [1, 1, 1, 1], 4.1 * HOUR_S) == (0.0, 0.0)
    assert len(tally) == 2
    tally.hottest(100, 8 * HOUR_S, HOUR_S)
    assert len(tally) == 0


def test_a_prompt_is_counted_up_to_its_bound_and_nothing_where_nothing_may_be_kept() -> None:
    tally = tally_of(max_prompt_tokens=4)
    tally.count("", [1] * 100, 0.0)
    assert len(tally) == 2
    nothing = tally_of(max_pieces=0)
    nothing.count("", [1] * 100, 0.0)
    assert len(nothing) == 0


@given(PROMPTS, PROMPTS, st.integers(1, 30))
def test_what_is_forgotten_is_gone_with_all_that_continues_it_and_nothing_else(
    prompts: list[tuple[str, list[int]]], forgotten: list[tuple[str, list[int]]], max_pieces: int
) -> None:
    tally = tally_of(max_pieces)
    for salt, token_ids in prompts:
        tally.count(salt, token_ids, 0.0)
    salt, token_ids = forgotten[0]
    target = max(beginnings(token_ids), key=len, default=())
    before = {(one, prompt): tally.num_uses(one, prompt, 0.0) for one, ids in prompts for prompt in beginnings(ids)}
    tally.forget(salt, token_ids)
    for (one, prompt), uses in before.items():
        is_gone = one == salt and prompt[: len(target)] == target
        assert tally.num_uses(one, prompt, 0.0) == ((0.0, 0.0) if is_gone else uses)
    for salt, token_ids in prompts:
        tally.count(salt, token_ids, 0.0)
        assert len(tally) <= max_pieces
    tally.forget_all()
    assert len(tally) == 0


def test_after_a_day_the_hour_says_which_prefix_is_due() -> None:
    day = TallyConfig(piece_tokens=PIECE, bin_s=HOUR_S, forecast=ForecastConfig(season_bins=24))
    tally = PrefixTally(day)
    for hour in range(24 * 3 + 8):
        prompt = [8, 8] if hour % 24 in (8, 9, 10) else [20, 20]
        for _ in range(10):
            tally.count("", prompt, HOUR_S * hour)
    at_eight = HOUR_S * (24 * 3 + 8)
    assert tally.hottest(PIECE, at_eight, HOUR_S)[0].token_ids == (8, 8)
    for hour in range(24 * 3 + 8, 24 * 3 + 11):
        for _ in range(10):
            tally.count("", [8, 8], HOUR_S * hour)
    assert tally.hottest(PIECE, HOUR_S * (24 * 3 + 11), HOUR_S)[0].token_ids == (20, 20)
