import pytest

from tailrace.kvcache.block import BlockTable, Owner
from tailrace.scheduler.draft import StepDraft
from tailrace.scheduler.live import LiveRequest
from tailrace.scheduler.prompts import even_share
from tailrace.types import packed
from tests.support.simulation import make_request


def live_with_gap(gap: int, num_computed: int = 0) -> LiveRequest:
    request = make_request("r", range(1, gap + num_computed + 1))
    live = LiveRequest(
        "r", request, 0, BlockTable(Owner(b"", b"", b"")), packed(request.prompt_ids), 1_000, 100, frozenset()
    )
    live.num_computed = num_computed
    return live


def chunks(gap: int, budget_tokens: int) -> list[int]:
    live, counts = live_with_gap(gap), []
    while live.gap:
        draft = StepDraft(budget_tokens)
        draft.fill(live, even_share(live.gap, draft.budget_left))
        part = draft.plan(1, (), ()).slices[0]
        assert draft.budget_left == budget_tokens - part.num_tokens
        assert part.is_sampled == (part.start + part.num_tokens == gap)
        live.num_computed += part.num_tokens
        counts.append(part.num_tokens)
    return counts


@pytest.mark.parametrize(
    ("gap", "budget_tokens", "expected"),
    [
        (5, 8, [5]),
        (8, 8, [8]),
        (9, 8, [5, 4]),
        (600, 512, [300, 300]),
        (1_100, 512, [367, 367, 366]),
        (3, 1, [1, 1, 1]),
    ],
)
def test_a_gap_is_cut_evenly_and_into_as_few_steps_as_possible(
    gap: int, budget_tokens: int, expected: list[int]
) -> None:
    assert chunks(gap, budget_tokens) == expected


def test_blocks_that_come_and_go_are_told_once() -> None:
    live = live_with_gap(8)
    live.new_blocks, live.num_released = (3, 4), 2
    draft = StepDraft(4)
    draft.fill(live, 4)
    live.num_computed = 7
    draft.budget_left = 1
    draft.decode([live])
    assert [(part.new_blocks, part.num_released) for part in draft.plan(1, (), ()).slices] == [((3, 4), 2), ((), 0)]


def test_who_enters_brings_all_known_tokens() -> None:
    request = make_request("r", [1, 2], output_ids=(3,))
    live = LiveRequest("r", request, 0, BlockTable(Owner(b"", b"", b"")), packed([1, 2, 3]), 1_000, 100, frozenset())
    draft = StepDraft(8)
    draft.enter(live)
    live.token_ids.append(4)
    entry = draft.plan(1, ("gone",), ()).entered[0]
    assert (entry.token_ids, entry.num_prompt_tokens, entry.sampling) == (packed([1, 2, 3]), 2, request.sampling)


def test_its_size_is_that_of_its_plan() -> None:
    draft = StepDraft(64)
    assert draft.size == (0, 0, 0, 0)
    draft.decode([live_with_gap(1, num_computed=9)])
    draft.fill(live_with_gap(8, num_computed=5), 3)
    draft.fill(live_with_gap(4), 4)
    size = draft.size
    assert size == draft.plan(1, (), ()).size
    assert (size.num_tokens, size.num_sampled) == (8, 2)
    assert size.num_alone_read_tokens == 10
    assert size.num_read_tokens == 10 + (6 + 7 + 8) + (1 + 2 + 3 + 4)
