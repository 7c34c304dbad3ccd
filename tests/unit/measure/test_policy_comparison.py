"""Each order against the obvious way to do it, which keeps all uses and looks at every block."""

import math
from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import SetupError
from tailrace.kvcache.eviction import EvictionConfig, Uses
from tailrace.measure.eviction_orders import Belady, EvictionOrder, Lfu, Lru, LruKTtl
from tailrace.measure.policy_comparison import POLICIES, compare_policies, replay
from tailrace.measure.trace import BLOCK_TOKENS, PromptTrace, TracedPrompt
from tests.unit.measure.traces import trace_of, traces

EVICTION = EvictionConfig(ttl_s=3600.0, once_idle_s=300.0, lapse_s=30.0)
SIZES = st.integers(1, 12)

Seen = list[tuple[int, float]]  # the prompts that used a block since it came, and when
Rank = Callable[[Seen, float], tuple[float, ...]]


def blocks_found(trace: PromptTrace, order: EvictionOrder, size: int) -> int:
    return replay(trace, order, size, lambda: None)[0]


def found_obviously(trace: PromptTrace, rank: Rank, size: int) -> int:
    """The lowest rank goes first of all blocks that nothing continues and that the prompt does not use."""
    here: dict[int, Seen] = {}
    children: dict[int, set[int]] = {}
    for prompt in trace.prompts:
        for parent, child in zip(prompt.block_ids, prompt.block_ids[1:], strict=False):
            children.setdefault(parent, set()).add(child)
    num_found = 0
    for index, prompt in enumerate(trace.prompts):
        num_found += _prefix(prompt, here)
        for block in prompt.block_ids[:size]:
            while block not in here and len(here) >= size:
                leaves = [one for one in here if not children.get(one, set()) & set(here)]
                candidates = [one for one in leaves if one not in prompt.block_ids[:size]]
                del here[min(candidates, key=lambda one: (*rank(here[one], prompt.at_s), -one))]
            here.setdefault(block, []).append((index, prompt.at_s))
    return num_found


def _prefix(prompt: TracedPrompt, here: dict[int, Seen]) -> int:
    return next((at for at, block in enumerate(prompt.block_ids) if block not in here), len(prompt.block_ids))


def lru_rank(seen: Seen, now_s: float) -> tuple[float, ...]:
    return (seen[-1][0],)


def lfu_rank(seen: Seen, now_s: float) -> tuple[float, ...]:
    return len(seen), seen[-1][0]


@given(traces(), SIZES)
def test_lru_and_lfu_find_what_the_obvious_way_finds(trace: PromptTrace, size: int) -> None:
    assert blocks_found(trace, Lru(), size) == found_obviously(trace, lru_rank, size)
    assert blocks_found(trace, Lfu(), size) == found_obviously(trace, lfu_rank, size)


@given(st.data(), SIZES)
def test_the_own_policy_finds_what_the_obvious_way_finds(data: st.DataObject, size: int) -> None:
    # Single blocks at distinct times: of equal standing and time, a queue and a search may choose differently.
    names = data.draw(st.lists(st.integers(0, 15), min_size=1, max_size=60))
    gaps_s = data.draw(st.lists(st.floats(0.5, 900.0), min_size=len(names), max_size=len(names)))
    trace = trace_of(*((name,) for name in names), gaps_s=tuple(gaps_s))

    def rank(seen: Seen, now_s: float) -> tuple[float, ...]:
        previous_s = seen[-2][1] if len(seen) > 1 else -math.inf
        return Uses(seen[-1][1], previous_s).standing(now_s, EVICTION)

    assert blocks_found(trace, LruKTtl(EVICTION), size) == found_obviously(trace, rank, size)


@settings(max_examples=60)
@given(traces(max_prompts=7, max_depth=3, max_fork=1), st.integers(1, 4))
def test_belady_finds_as_much_as_the_best_of_all_choices(trace: PromptTrace, size: int) -> None:
    chains = [prompt.block_ids for prompt in trace.prompts]

    @cache
    def most(index: int, here: frozenset[int]) -> int:
        """The most blocks that prompts from `index` on can find, over everything that could be kept after each."""
        if index == len(chains):
            return 0
        found = next((at for at, block in enumerate(chains[index]) if block not in here), len(chains[index]))
        return found + max(most(index + 1, kept) for kept in _choices(here.union(chains[index]), size))

    assert blocks_found(trace, Belady(trace), size) == most(0, frozenset())


def _choices(blocks: frozenset[int], size: int) -> Iterator[frozenset[int]]:
    return map(frozenset, combinations(sorted(blocks), min(size, len(blocks))))


@given(traces(), SIZES)
def test_nothing_finds_more_than_belady(trace: PromptTrace, size: int) -> None:
    best = blocks_found(trace, Belady(trace), size)
    assert all(blocks_found(trace, order, size) <= best for order in (Lru(), Lfu(), LruKTtl(EVICTION)))


@given(traces())
def test_more_room_never_finds_less_for_lru_and_belady(trace: PromptTrace) -> None:
    for order in (Lru, lambda: Belady(trace)):
        found = [blocks_found(trace, order(), size) for size in range(1, 15)]
        assert found == sorted(found)


@given(traces())
def test_with_room_for_all_each_policy_finds_all_that_is_shared(trace: PromptTrace) -> None:
    shared = trace.num_blocks - trace.num_distinct_blocks
    for order in (Lru(), Lfu(), LruKTtl(EVICTION), Belady(trace)):
        assert blocks_found(trace, order, trace.num_distinct_blocks) == shared


def test_a_block_whose_beginning_is_gone_is_no_hit_and_the_end_goes_first() -> None:
    trace = trace_of((1, 1, 1), (2,), (1, 1, 1))
    assert blocks_found(trace, Lru(), 3) == 2


def test_a_short_last_block_counts_its_own_tokens() -> None:
    prompts = (TracedPrompt(0.0, BLOCK_TOKENS + 10, (0, 1)), TracedPrompt(1.0, BLOCK_TOKENS + 10, (0, 1)))
    assert replay(PromptTrace(prompts), Lru(), 2, lambda: None) == (2, BLOCK_TOKENS + 10)


def test_a_comparison_has_each_policy_at_each_size_and_tells_how_far_it_is() -> None:
    steps: list[tuple[int, int]] = []
    trace = trace_of((1, 1), (1, 2), (1, 1))
    compared = compare_policies(trace, (1.0, 0.5), EVICTION, lambda done, total: steps.append((done, total)))
    assert [(hits.policy, hits.share) for hits in compared.hits] == [
        (policy, share) for policy in POLICIES for share in (0.5, 1.0)
    ]
    assert compared.unbounded.block_hit_rate == 3 / 6
    assert steps[-1] == (27, 27)


def test_a_size_of_no_block_is_refused() -> None:
    with pytest.raises(SetupError, match="larger --size"):
        compare_policies(trace_of((1,)), (0.1,), EVICTION, lambda _done, _total: None)
