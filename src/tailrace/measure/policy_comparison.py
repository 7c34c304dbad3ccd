"""Hit rates of eviction policies on a trace, at several sizes of the cache. A simulation: prompts take no time."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tailrace.errors import SetupError
from tailrace.kvcache.eviction import EvictionConfig
from tailrace.measure.chain_cache import ChainCache
from tailrace.measure.eviction_orders import Belady, EvictionOrder, Lfu, Lru, LruKTtl, Turn
from tailrace.measure.trace import PromptTrace

__all__ = ["POLICIES", "PolicyComparison", "PolicyHits", "compare_policies", "replay"]

POLICIES = {
    "LRU": "the longest unused goes first",
    "LFU": "the least used since it came",
    "LRU-K+TTL": "as all levels of the server do it",
    "Belady": "knows the trace: the most blocks that any order can find",
}

_PROGRESS_EVERY = 500  # prompts


@dataclass(frozen=True, slots=True)
class PolicyHits:
    """What one policy found in a cache of `num_blocks`, which is `share` of the distinct blocks of the trace."""

    policy: str
    share: float
    num_blocks: int
    block_hit_rate: float
    token_hit_rate: float


@dataclass(frozen=True, slots=True)
class PolicyComparison:
    num_prompts: int
    num_tokens: int
    num_blocks: int
    num_distinct_blocks: int
    duration_s: float
    eviction: EvictionConfig
    unbounded: PolicyHits  # of a cache that never evicts
    hits: tuple[PolicyHits, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def compare_policies(
    trace: PromptTrace, shares: Sequence[float], eviction: EvictionConfig, progress: Callable[[int, int], None]
) -> PolicyComparison:
    """Replay the trace once for each policy and size. Raises SetupError for a size of no block."""
    sizes = {share: _num_blocks(trace, share) for share in sorted(shares)}
    runs = [(policy, share) for policy in POLICIES for share in sizes]
    steps = _Steps((len(runs) + 1) * len(trace.prompts), progress)

    def run(policy: str, share: float, num_blocks: int) -> PolicyHits:
        blocks, tokens = replay(trace, _order(policy, trace, eviction), num_blocks, steps.advance)
        return PolicyHits(policy, share, num_blocks, blocks / trace.num_blocks, tokens / trace.num_tokens)

    return PolicyComparison(
        num_prompts=len(trace.prompts),
        num_tokens=trace.num_tokens,
        num_blocks=trace.num_blocks,
        num_distinct_blocks=trace.num_distinct_blocks,
        duration_s=trace.prompts[-1].at_s - trace.prompts[0].at_s,
        eviction=eviction,
        unbounded=run("LRU", 1.0, trace.num_distinct_blocks),
        hits=tuple(run(policy, share, sizes[share]) for policy, share in runs),
    )


def replay(trace: PromptTrace, order: EvictionOrder, num_blocks: int, advance: Callable[[], None]) -> tuple[int, int]:
    """All prompts, one after the other, through one cache; the blocks and the tokens that were found."""
    cache, found_blocks, found_tokens = ChainCache(num_blocks, order), 0, 0
    for index, prompt in enumerate(trace.prompts):
        found = cache.serve(prompt.block_ids, Turn(index, prompt.at_s))
        found_blocks += found
        found_tokens += prompt.tokens_of(found)
        advance()
    return found_blocks, found_tokens


def _order(policy: str, trace: PromptTrace, eviction: EvictionConfig) -> EvictionOrder:
    match policy:
        case "LRU":
            return Lru()
        case "LFU":
            return Lfu()
        case "Belady":
            return Belady(trace)
        case _:
            return LruKTtl(eviction)


def _num_blocks(trace: PromptTrace, share: float) -> int:
    num_blocks = round(share * trace.num_distinct_blocks)
    if num_blocks < 1:
        raise SetupError(
            f"{share:g} of {trace.num_distinct_blocks:,} distinct blocks is no block: give a larger --size"
        )
    return num_blocks


class _Steps:
    """Counts prompts over all runs, and tells now and then."""

    def __init__(self, total: int, progress: Callable[[int, int], None]) -> None:
        self._total = total
        self._progress = progress
        self._done = 0

    def advance(self) -> None:
        self._done += 1
        if self._done % _PROGRESS_EVERY == 0 or self._done == self._total:
            self._progress(self._done, self._total)
