"""How prompts that are computed at the same time share a step."""

import pytest

from tailrace.classes import STANDARD
from tailrace.kvcache.block import BlockTable, Owner
from tailrace.scheduler.live import LiveRequest
from tailrace.scheduler.prompts import Prompts, even_share
from tailrace.types import packed
from tests.support.simulation import make_request


def prompt(name: str, gap: int, rank: int, *, class_name: str = "silver", num_computed: int = 0) -> LiveRequest:
    request = make_request(name, range(1, gap + num_computed + 1))
    table, ids = BlockTable(Owner(b"", b"", b"")), packed(request.prompt_ids)
    live = LiveRequest(name, request, rank, table, ids, 10_000, 1_000, frozenset(), STANDARD.named(class_name))
    live.num_computed, live.deadline_s, live.work_tokens = num_computed, float(rank), gap
    return live


def shares(prompts: Prompts, budget_tokens: int) -> dict[str, int]:
    return {live.request_id: count for live, count in prompts.shares(budget_tokens)}


@pytest.mark.parametrize(("gap", "most", "share"), [(5, 8, 5), (20, 7, 7), (13, 6, 5), (9, 8, 5), (1, 1, 1)])
def test_a_gap_is_cut_evenly_and_into_as_few_steps_as_possible(gap: int, most: int, share: int) -> None:
    assert even_share(gap, most) == share


def test_one_alone_gets_all_but_the_part_of_a_newcomer() -> None:
    long = prompt("long", 1_000, 1)
    assert shares(Prompts([long], None), 40) == {"long": 40}
    assert shares(Prompts([long], prompt("new", 10, 2)), 40) == {"long": 30}


def test_the_shortest_comes_first_and_the_oldest_keeps_a_part() -> None:
    behind = [prompt("oldest", 1_000, 1), prompt("middling", 100, 2), prompt("short", 20, 3)]
    assert shares(Prompts(behind, None), 40) == {"short": 20, "middling": 10, "oldest": 10}


def test_a_better_class_comes_before_a_shorter_prompt() -> None:
    behind = [prompt("oldest", 500, 1), prompt("short", 20, 2), prompt("gold", 300, 3, class_name="gold")]
    assert shares(Prompts(behind, None), 40) == {"gold": 30, "oldest": 10}


def test_the_oldest_moves_in_each_step_however_small() -> None:
    behind = [prompt("oldest", 500, 1), *(prompt(f"short {i}", 5, 2 + i) for i in range(9))]
    for budget_tokens in range(1, 60):
        assert shares(Prompts(behind, None), budget_tokens)["oldest"] >= 1
        assert sum(shares(Prompts(behind, None), budget_tokens).values()) <= budget_tokens


def test_no_more_than_a_few_of_a_class_and_better_ones_are_begun_at_a_time() -> None:
    behind = [prompt(f"r{i}", 1_000, i) for i in range(4)]
    silver, gold = prompt("silver", 100, 9), prompt("gold", 100, 9, class_name="gold")
    assert not Prompts(behind, silver).has_room_for(silver, 40)
    assert Prompts(behind, gold).has_room_for(gold, 40)
    assert Prompts(behind[1:], silver).has_room_for(silver, 40)
    assert sum(shares(Prompts(behind, silver), 40).values()) == 40
    assert sum(shares(Prompts(behind, gold), 40).values()) == 30


def test_who_is_done_in_the_same_step_may_always_begin() -> None:
    behind, hit = [prompt(f"r{i}", 1_000, i) for i in range(4)], prompt("hit", 1, 9)
    assert Prompts(behind, hit).has_room_for(hit, 1)


def test_those_that_a_step_finishes_leave_room() -> None:
    behind, new = [prompt(f"r{i}", 10, i) for i in range(4)], prompt("new", 100, 9)
    prompts = Prompts(behind, new)
    assert shares(prompts, 60) == {f"r{i}": 10 for i in range(4)}
    assert prompts.has_room_for(new, 20)


def test_what_is_pending_is_told_by_deadline_with_the_newcomer() -> None:
    behind = [prompt("late", 9, 5, num_computed=64), prompt("soon", 3, 1, num_computed=16)]
    prompts = Prompts(behind, prompt("new", 7, 0))
    assert [each[:2] for each in prompts.pending(lambda live: 0.0)] == [(7, 0.0), (3, 1.0), (9, 5.0)]
    assert prompts.read_per_token == 64


def test_a_prompt_that_is_long_for_its_target_is_due_later() -> None:
    long = prompt("long", 6_000, 10)
    assert Prompts([long], None).pending(lambda live: 6.0) == [(6_000, 42.0, False)]
    assert Prompts([long], None).pending(lambda live: 0.6) == [(6_000, 10.0, True)]


def test_what_is_done_in_a_moment_is_told_from_what_is_not() -> None:
    behind, short = [prompt("long", 6_000, 10)], prompt("short", 100, 11)
    prompts = Prompts(behind, short)
    assert [(each.num_tokens, each.is_short) for each in prompts.pending(lambda live: live.work_tokens / 1_000)] == [
        (100, True),
        (6_000, False),
    ]
