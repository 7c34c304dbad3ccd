from math import inf

import pytest

from tailrace.classes import STANDARD
from tailrace.scheduler.restoring import RestoreCosts, lost_share, num_blocks_gained
from tests.support.lives import make_live

KEPT = RestoreCosts(block_tokens=4, seconds_per_token=0.01, lost_share=0.0)
LOST = RestoreCosts(block_tokens=4, seconds_per_token=0.01, lost_share=1.0)


@pytest.mark.parametrize(("num_available", "expected"), [(0, 1.0), (10, 0.5), (20, 0.0), (100, 0.0)])
def test_what_becomes_idle_is_lost_in_a_full_pool_and_kept_in_a_roomy_one(num_available: int, expected: float) -> None:
    assert lost_share(num_available, 100) == pytest.approx(expected)


def test_only_what_is_in_no_sealed_block_is_computed_again_when_blocks_are_kept() -> None:
    assert KEPT.num_tokens(make_live(num_computed=10)) == 2
    assert KEPT.num_tokens(make_live(num_computed=8)) == 0


def test_everything_is_computed_again_when_blocks_are_lost() -> None:
    assert LOST.num_tokens(make_live(num_computed=10)) == 10


def test_blocks_that_others_hold_are_not_lost_and_make_no_room() -> None:
    live = make_live(num_computed=10, num_shared=1)
    assert LOST.num_tokens(live) == 6
    assert num_blocks_gained(live) == 2


def test_blocks_without_a_name_are_lost_in_any_case() -> None:
    live = make_live(num_computed=10)
    live.table.severed_at = 1
    assert KEPT.num_tokens(live) == 6


def test_with_a_window_only_what_is_held_can_be_lost() -> None:
    live = make_live(num_computed=10)
    del live.table.blocks[0]
    live.table.first = 1
    assert LOST.num_tokens(live) == 6
    assert KEPT.num_tokens(live) == 2


def test_a_stream_pays_for_its_next_token_being_late_and_one_in_its_prompt_does_not_yet() -> None:
    stream = make_live(num_computed=10, last_token_s=1.0)
    prompt = make_live(num_computed=10, deadline_s=60.0)
    gap_s = STANDARD.default.itl_s
    assert LOST.price_s(prompt, 1.0, out_s=1.0) == pytest.approx(0.1)
    assert LOST.price_s(stream, 1.0, out_s=1.0) == pytest.approx(0.1 + 1.0 + 0.1 - gap_s)


def test_a_request_may_have_a_target_of_its_own() -> None:
    stream = make_live(num_computed=10, last_token_s=1.0, itl_s=2.0)
    assert LOST.price_s(stream, 1.0, out_s=1.0) == pytest.approx(0.1)


def test_who_is_late_already_pays_no_more_than_who_is_due_now() -> None:
    overdue = make_live(num_computed=10, last_token_s=-100.0)
    assert LOST.price_s(overdue, 1.0, out_s=1.0) == pytest.approx(0.1 + 1.0 + 0.1)


def test_without_a_deadline_time_does_not_matter() -> None:
    assert LOST.price_s(make_live(num_computed=10, deadline_s=inf), 1.0, out_s=1e6) == pytest.approx(0.1)
