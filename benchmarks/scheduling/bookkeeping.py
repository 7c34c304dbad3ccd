"""What deciding costs: microseconds of plan + commit for one step, without any model.

    python -m benchmarks.scheduling.bookkeeping [--json]

`decode` is the steady state: each running request computes one token, and every `block_tokens` steps takes a block and
seals one; with a window it also gives one back. `admit` starts and ends requests: match, reserve, seal and release of a
prompt, cold and cached.

`cache` is the cache's own part of a steady step, beside more and more named blocks that nobody uses: sequences at all
places within a block grow and seal, another is evicted for each block they take, and chunks and sweeps are looked
after. `--named` bounds how many blocks are named: a million take a gigabyte, and a minute to make.
"""

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

from benchmarks.serving.machine import describe_machine
from tailrace.kvcache.block import BlockTable
from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.kvcache.config import SweepConfig
from tailrace.scheduler.plan import SampledToken, StepPlan, StepResult
from tailrace.scheduler.scheduler import Scheduler, SchedulerConfig
from tailrace.types import Request, SamplingParams

BLOCK_TOKENS = 32
TOKEN_ID = 7


def make_scheduler(num_blocks: int, max_running: int, window_tokens: int | None = None) -> Scheduler:
    config = SchedulerConfig(
        budget_tokens=16_384,
        max_running=max_running,
        max_model_tokens=131_072,
        eos_ids=(0,),
    )
    return Scheduler(config, KvCache(KvCacheConfig(num_blocks, BLOCK_TOKENS, ("bench",), window_tokens)))


def make_request(number: int, num_prompt_tokens: int, max_tokens: int) -> Request:
    """Requests of different numbers share no block."""
    prompt = tuple(range(number * 1_000_000, number * 1_000_000 + num_prompt_tokens))
    return Request(f"r{number}", prompt, SamplingParams(max_tokens), time.perf_counter())


def sampled(plan: StepPlan) -> StepResult:
    tokens = [SampledToken(part.request_id, TOKEN_ID) for part in plan.slices if part.is_sampled]
    return StepResult(plan.step_id, tuple(tokens))


def step_us(scheduler: Scheduler) -> float:
    """Time of plan and commit of one step; what the runtime would do between them is left out."""
    started = time.perf_counter()
    plan = scheduler.plan(started)
    planned = time.perf_counter()
    assert plan is not None
    result = sampled(plan)
    computed = time.perf_counter()
    scheduler.commit(result, computed)
    return (planned - started + time.perf_counter() - computed) * 1e6


def decode_us(
    num_running: int,
    num_prompt_tokens: int,
    num_blocks: int,
    *,
    window_tokens: int | None = None,
    num_steps: int = 2_000,
) -> list[float]:
    scheduler = make_scheduler(num_blocks, num_running, window_tokens)
    for number in range(num_running):
        scheduler.add(make_request(number, num_prompt_tokens, num_steps * 2))
    while scheduler.stats.num_waiting:
        step_us(scheduler)
    return [step_us(scheduler) for _ in range(num_steps)]


def admit_us(
    num_prompt_tokens: int,
    *,
    num_blocks: int,
    is_cached: bool,
    window_tokens: int | None = None,
    num_requests: int = 100,
) -> list[float]:
    """One request after the other, one token each."""
    scheduler = make_scheduler(num_blocks, 1, window_tokens)
    times = []
    for number in range(num_requests):
        request = make_request(0 if is_cached else number, num_prompt_tokens, 1)
        started = time.perf_counter()
        scheduler.add(request)
        times.append((time.perf_counter() - started) * 1e6 + step_us(scheduler))
    return times[1:]


class CacheLoad:
    """A full cache: some sequences run, all other blocks are named and idle."""

    def __init__(self, num_running: int, num_prompt_tokens: int, num_named: int) -> None:
        prompt_blocks = -(-num_prompt_tokens // BLOCK_TOKENS)
        num_blocks = num_named + num_running * (prompt_blocks + 1)
        never = SweepConfig(free_share=0.0, quiet_share=0.0)  # so that blocks are still there to be evicted
        self.cache = KvCache(KvCacheConfig(num_blocks, BLOCK_TOKENS, ("bench",), sweep=never))
        self._now_s = 0.0
        self._fill(num_named, prompt_blocks)
        self.running: list[tuple[BlockTable, list[int]]] = []
        for number in range(num_running):
            token_ids = _tokens(number + 1, num_prompt_tokens + number % BLOCK_TOKENS)
            self.running.append((self._start(token_ids), token_ids))

    def step_us(self) -> float:
        """Each sequence gets a token."""
        for _, token_ids in self.running:
            token_ids.append(TOKEN_ID)
        started = time.perf_counter()
        self._now_s += 0.02
        self.cache.advance(self._now_s)
        for table, token_ids in self.running:
            if len(token_ids) // BLOCK_TOKENS > table.num_sealed:
                self.cache.seal(table, token_ids, len(token_ids))
            if len(token_ids) >= table.end * BLOCK_TOKENS and self.cache.grow(table) is None:
                raise RuntimeError("no block is left to evict: take fewer steps, or name more blocks")
        self.cache.sweep()
        self.cache.take_memory_change()
        return (time.perf_counter() - started) * 1e6

    def _start(self, token_ids: Sequence[int]) -> BlockTable:
        table = self.cache.open("")
        match = self.cache.match(table, token_ids)
        if self.cache.acquire(table, match, len(token_ids), 0) is None:
            raise RuntimeError("the cache of this benchmark is too small")
        self.cache.seal(table, token_ids, len(token_ids))
        self.cache.copied()
        self.cache.take_copies()
        return table

    def _fill(self, num_named: int, prompt_blocks: int) -> None:
        for number in range(-(-num_named // prompt_blocks)):
            self.cache.release(self._start(_tokens(-number, prompt_blocks * BLOCK_TOKENS)))


def _tokens(number: int, count: int) -> list[int]:
    """The beginnings of other numbers differ; all else is the same, so that a million blocks need few numbers."""
    return [number & 0xFFFF_FFFF, *range(count - 1)]


def cache_us(num_running: int, num_prompt_tokens: int, num_named: int, *, num_steps: int = 480) -> list[float]:
    """Few enough steps by default that the fewest named blocks last."""
    load = CacheLoad(num_running, num_prompt_tokens, num_named)
    gc.collect()
    gc.freeze()  # what is there is there to stay: the collector would visit it all now and then
    try:
        return [load.step_us() for _ in range(num_steps)]
    finally:
        gc.unfreeze()


def cases(max_named: int) -> dict[str, Callable[[], list[float]]]:
    return {
        f"cache, 64 running x 4,000 tokens, {num_named:,} named": partial(cache_us, 64, 4_000, num_named)
        for num_named in (1_000, 10_000, 100_000, 1_000_000)
        if num_named <= max_named
    } | {
        "decode, 1 running": lambda: decode_us(1, 512, 20_000),
        "decode, 32 running": lambda: decode_us(32, 512, 20_000),
        "decode, 64 running x 4,000 tokens": lambda: decode_us(64, 4_000, 20_000),
        "decode, 64 running x 4,000 tokens, pool of 1,000,000 blocks": lambda: decode_us(64, 4_000, 1_000_000),
        "decode, 64 running x 4,000 tokens, window of 1,024": lambda: decode_us(64, 4_000, 20_000, window_tokens=1_024),
        "admit 4,000 tokens, cold": lambda: admit_us(4_000, num_blocks=20_000, is_cached=False),
        "admit 4,000 tokens, cached": lambda: admit_us(4_000, num_blocks=20_000, is_cached=True),
        "admit 4,000 tokens, cold, window of 1,024": lambda: admit_us(
            4_000, num_blocks=20_000, is_cached=False, window_tokens=1_024
        ),
        "admit 4,000 tokens, cached, window of 1,024": lambda: admit_us(
            4_000, num_blocks=20_000, is_cached=True, window_tokens=1_024
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scheduling.bookkeeping",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--named", type=int, default=1_000_000, help="the most named blocks [%(default)s]")
    arguments = parser.parse_args()
    rows = {}
    for name, measure in cases(arguments.named).items():
        sys.stderr.write(f"{name}\n")
        gc.collect()
        times = sorted(measure())
        rows[name] = {"median_us": round(median(times), 1), "p99_us": round(times[int(len(times) * 0.99)], 1)}
    machine = describe_machine()
    if arguments.json:
        sys.stdout.write(json.dumps({"machine": machine, "rows": rows}, indent=2) + "\n")
        return
    print(f"{machine}; blocks of {BLOCK_TOKENS} tokens; microseconds of plan + commit a step")
    for name, row in rows.items():
        print(f"{name:64} median {row['median_us']:8.1f}   p99 {row['p99_us']:8.1f}")


if __name__ == "__main__":
    main()
