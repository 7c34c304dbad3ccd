"""What deciding costs: microseconds of plan + commit for one step, without any model.

    python -m benchmarks.scheduling.bookkeeping [--json]

`decode` is the steady state: each running request computes one token, and every `block_tokens` steps takes a block and
seals one; with a window it also gives one back. `admit` starts and ends requests: match, reserve, seal and release of a
prompt, cold and cached.
"""

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable
from statistics import median

from benchmarks.serving.machine import describe_machine
from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.scheduler.plan import SampledToken, StepPlan, StepResult
from tailrace.scheduler.scheduler import Scheduler, SchedulerConfig
from tailrace.types import Request, SamplingParams

BLOCK_TOKENS = 32
TOKEN_ID = 7


def make_scheduler(num_blocks: int, max_running: int, window_tokens: int | None = None) -> Scheduler:
    config = SchedulerConfig(
        budget_tokens=16_384,
        max_running=max_running,
        max_waiting=4_096,
        max_waiting_tokens=100_000_000,
        max_model_tokens=131_072,
        eos_ids=(0,),
    )
    return Scheduler(config, KvCache(KvCacheConfig(num_blocks, BLOCK_TOKENS, ("bench",), window_tokens)))


def make_request(number: int, num_prompt_tokens: int, max_tokens: int) -> Request:
    """Requests of different numbers share no block."""
    prompt = tuple(range(number * 1_000_000, number * 1_000_000 + num_prompt_tokens))
    return Request(f"r{number}", prompt, SamplingParams(max_tokens))


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


def cases() -> dict[str, Callable[[], list[float]]]:
    return {
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
    wants_json = parser.parse_args().json
    rows = {}
    for name, measure in cases().items():
        sys.stderr.write(f"{name}\n")
        gc.collect()
        times = sorted(measure())
        rows[name] = {"median_us": round(median(times), 1), "p99_us": round(times[int(len(times) * 0.99)], 1)}
    machine = describe_machine()
    if wants_json:
        sys.stdout.write(json.dumps({"machine": machine, "rows": rows}, indent=2) + "\n")
        return
    print(f"{machine}; blocks of {BLOCK_TOKENS} tokens; microseconds of plan + commit a step")
    for name, row in rows.items():
        print(f"{name:64} median {row['median_us']:8.1f}   p99 {row['p99_us']:8.1f}")


if __name__ == "__main__":
    main()
