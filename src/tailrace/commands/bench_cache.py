"""`tailrace bench cache`: what the cache's eviction policy finds on a trace of prompts, beside others."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.types import PositiveFloat
from cyclopts.validators import Number
from rich.console import Group, RenderableType
from rich.table import Table

from tailrace.commands.figures import JsonTarget, show_figures
from tailrace.commands.loading import LoadingBar
from tailrace.kvcache.eviction import EvictionConfig
from tailrace.measure.policy_comparison import POLICIES, PolicyComparison, compare_policies
from tailrace.measure.trace import BLOCK_TOKENS, read_trace

__all__ = ["cache"]

DEFAULT_SIZES = (0.01, 0.05, 0.1, 0.25)
POLICY = EvictionConfig()

Share = Annotated[float, Parameter(validator=Number(gt=0, lte=1))]

cache = App(
    name="cache",
    help_epilogue="Examples:\n"
    "  tailrace bench cache --trace mooncake_conversation.jsonl\n"
    "  tailrace bench cache --trace prompts.jsonl --size 0.02 0.2 --lapse 300 --json\n\n"
    'A line of a trace: {"timestamp": 1500, "input_length": 700, "output_length": 90, "hash_ids": [0, 7]}\n'
    f"timestamp is in ms; hash_ids has one id for each {BLOCK_TOKENS} tokens, and equal ids\n"
    "stand for equal tokens from the beginning of the prompt up to there.",
)


@cache.default
def run(
    *,
    trace: Path,
    size: Annotated[list[Share] | None, Parameter(consume_multiple=True)] = None,
    ttl: PositiveFloat = POLICY.ttl_s,
    once_idle: PositiveFloat = POLICY.once_idle_s,
    lapse: PositiveFloat = POLICY.lapse_s,
    json: JsonTarget = None,
) -> None:
    """Compare the hit rate of the cache's eviction policy with LRU, LFU and the offline optimum, without a model.

    Parameters
    ----------
    trace
        Prompts with times and shared prefixes, in the format of the Mooncake traces.
    size
        Blocks of the cache, as shares of the trace's distinct blocks [0.01 0.05 0.1 0.25].
    ttl
        Seconds after which an unused block has expired.
    once_idle
        Seconds after which a block that was used once has been idle for long.
    lapse
        Seconds between two uses beyond which a block is not in regular use.
    json
        Write JSON to a file, or, without a name, to standard output.
    """
    comparison = compare_policies(
        read_trace(trace),
        size or DEFAULT_SIZES,
        EvictionConfig(ttl_s=ttl, once_idle_s=once_idle, lapse_s=lapse),
        LoadingBar("Replaying the trace"),
    )
    show_figures(_render(comparison), comparison.to_dict(), json)


def _render(comparison: PolicyComparison) -> RenderableType:
    return Group(_overview(comparison), "", _rates(comparison))


def _overview(comparison: PolicyComparison) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, value in _rows(comparison):
        table.add_row(name, value)
    return table


def _rows(comparison: PolicyComparison) -> Iterator[tuple[str, str]]:
    prompts, minutes = comparison.num_prompts, comparison.duration_s / 60
    yield "trace", f"{prompts:,} prompts of {comparison.num_tokens:,} tokens in {minutes:.1f} minutes"
    yield "blocks", f"{comparison.num_blocks:,}, {comparison.num_distinct_blocks:,} of them distinct"
    best = comparison.unbounded
    yield "without end", f"{best.token_hit_rate:.1%} of tokens, {best.block_hit_rate:.1%} of blocks: all that is shared"
    config = comparison.eviction
    limits = f"time to live {config.ttl_s:g} s, once-used idle {config.once_idle_s:g} s, lapse {config.lapse_s:g} s"
    yield "LRU-K+TTL", limits


def _rates(comparison: PolicyComparison) -> Table:
    """A row for each policy, and for each size the shares of tokens and of blocks that it found."""
    sizes = {hits.share: hits.num_blocks for hits in comparison.hits}
    table = Table("hits, tokens / blocks", box=None, padding=(0, 2, 0, 0))
    for share, num_blocks in sizes.items():
        table.add_column(f"{share:.3g} = {num_blocks:,} blocks", justify="right")
    for policy in POLICIES:
        found = [hits for hits in comparison.hits if hits.policy == policy]
        table.add_row(policy, *(f"{hits.token_hit_rate:.1%} / {hits.block_hit_rate:.1%}" for hits in found))
    return table
