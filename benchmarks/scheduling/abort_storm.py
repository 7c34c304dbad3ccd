"""What a storm of aborts does to the streams beside it: tokens a second before and meanwhile, blocks and memory after.

    python -m benchmarks.scheduling.abort_storm [--requests 10000] [--rounds 3] [--json]

16 streams of the default model run in this process, and take all places. In each round as many requests as asked for
are queued and cancelled again within about a second, some at once and some when the scheduler knows them, shuffled;
the round is over when all of them have ended. The quiet time before each round is measured in the same run, so that the
ratio means something on a machine that has other things to do.
"""

import argparse
import asyncio
import gc
import json
import math
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from benchmarks.serving.machine import describe_machine
from tailrace.app import LoadedModel, load_model, start_engine
from tailrace.config import EngineConfig
from tailrace.engine.client import TokenStream
from tailrace.engine.local import LocalEngine
from tailrace.errors import EngineError
from tailrace.records import LoadRecord, Record, StepRecord
from tailrace.types import Request, SamplingParams
from tailrace.weights.load import open_checkpoint

__all__ = ["Round", "StormReport", "run_storm", "storm_config"]

NUM_STREAMS = 16
NUM_STREAM_TOKENS = 4_000
PROMPT_TOKENS = 64
QUIET_S = 2.0
BATCH, BATCH_EVERY_S = 100, 0.005  # 10,000 are submitted in half a second, and cancelled in the other half
AIM = 0.9  # of the quiet throughput


@dataclass(frozen=True, slots=True)
class Round:
    """Tokens a second of all streams together; the storm's seconds are until its last request has ended."""

    quiet_rate: float
    storm_rate: float
    storm_s: float
    memory_mib: float  # of this process after it, less what keys and values take: the streams go on

    @property
    def ratio(self) -> float:
        return self.storm_rate / self.quiet_rate


@dataclass(frozen=True, slots=True)
class StormReport:
    rounds: list[Round]
    num_blocks_left: int  # held once everything has ended

    @property
    def ratio(self) -> float:
        return median([each.ratio for each in self.rounds])


class _Watcher:
    """Counts the tokens of the streams, and knows the latest state of the KV pool."""

    def __init__(self) -> None:
        self.num_tokens = 0
        self.num_blocks_held = 0

    def emit(self, record: Record) -> None:
        if isinstance(record, StepRecord):
            self.num_tokens += record.num_sampled
        if isinstance(record, StepRecord | LoadRecord):
            pool = record.pool
            self.num_blocks_held = pool.num_reserved + pool.num_filling + pool.num_sealed


def run_storm(
    model: LoadedModel, config: EngineConfig, num_requests: int, num_rounds: int, quiet_s: float = QUIET_S
) -> StormReport:
    """`config` must have places for just the streams, and room for the storm in its queue; see `storm_config`."""
    return asyncio.run(_run(model, config, num_requests, num_rounds, quiet_s))


async def _run(
    model: LoadedModel, config: EngineConfig, num_requests: int, num_rounds: int, quiet_s: float
) -> StormReport:
    watcher = _Watcher()
    engine = start_engine(model, config, watcher.emit, on_failure=lambda: None)
    sampling = SamplingParams(NUM_STREAM_TOKENS, temperature=0.0, ignore_eos=True)
    names = [f"stream-{number}" for number in range(NUM_STREAMS)]
    streams = [engine.submit(Request(name, _prompt(-number), sampling)) for number, name in enumerate(names)]
    readers = [asyncio.create_task(_read(stream)) for stream in streams]
    await _until(engine, lambda: watcher.num_tokens >= 4 * NUM_STREAMS)
    rounds = []
    for number in range(num_rounds):
        quiet_rate, storm_rate, storm_s = await _round(engine, watcher, num_requests, number, quiet_s)
        memory_mib = _rss_mib() - model.executable.kv_resident_bytes / 2**20
        rounds.append(Round(quiet_rate, storm_rate, storm_s, memory_mib))
    for name in names:
        engine.abort(name)
    await asyncio.gather(*readers)
    engine.close()
    return StormReport(rounds, watcher.num_blocks_held)


async def _round(
    engine: LocalEngine, watcher: _Watcher, num_requests: int, number: int, quiet_s: float
) -> tuple[float, float, float]:
    """The rates of quiet and storm, and how long the storm took."""
    gc.collect()
    quiet_rate = await _rate_while(watcher, asyncio.sleep(quiet_s))
    started_s = time.monotonic()
    storm_rate = await _rate_while(watcher, _storm(engine, num_requests, number))
    storm_s = time.monotonic() - started_s
    gc.collect()
    return quiet_rate, storm_rate, storm_s


async def _rate_while(watcher: _Watcher, work: Awaitable[None]) -> float:
    """Tokens a second until the work is done."""
    num_before, started_s = watcher.num_tokens, time.monotonic()
    await work
    return (watcher.num_tokens - num_before) / (time.monotonic() - started_s)


async def _storm(engine: LocalEngine, num_requests: int, number: int) -> None:
    """Queue requests and cancel them, batch by batch; then wait until the engine has ended them all."""
    draw = random.Random(number)
    names = [f"storm-{number}-{each}" for each in range(num_requests)]
    num_late = num_requests // 2
    late = draw.sample(names, num_late)  # the others are cancelled with the batch after their own
    is_late = set(late)
    before: Sequence[str] = ()
    for first in range(0, num_requests, BATCH):
        batch = names[first : first + BATCH]
        for place, name in enumerate(batch, first):
            engine.submit(_request(name, (number + 1) * num_requests + place))
        for name in before:
            engine.abort(name)
        before = [name for name in batch if name not in is_late]
        await asyncio.sleep(BATCH_EVERY_S)
    late += before
    for first in range(0, len(late), BATCH):
        for name in late[first : first + BATCH]:
            engine.abort(name)
        await asyncio.sleep(BATCH_EVERY_S)
    await _until(engine, lambda: engine.num_requests <= NUM_STREAMS)


def _request(name: str, number: int) -> Request:
    """One that would wait for as long as it takes."""
    sampling = SamplingParams(max_tokens=16)
    return Request(name, _prompt(number), sampling, ttft_s=math.inf, queue_ttl_s=math.inf)


def _prompt(number: int) -> tuple[int, ...]:
    """Tokens that hardly any other prompt begins with, of which every model has as many."""
    return tuple(random.Random(number).choices(range(3, 256), k=PROMPT_TOKENS))


async def _until(engine: LocalEngine, condition: Callable[[], bool]) -> None:
    while not condition():
        if not engine.is_ready:
            raise EngineError("the engine has failed; see its log")
        await asyncio.sleep(BATCH_EVERY_S)


def _rss_mib() -> float:
    """Of this process, now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


async def _read(stream: TokenStream) -> None:
    async for _ in stream:
        pass


def storm_config(num_requests: int) -> EngineConfig:
    """Places for the streams alone, and a queue in which the whole storm has room."""
    return EngineConfig(
        kv_memory_bytes=512 << 20,
        max_running=NUM_STREAMS,
        max_queued=4 * num_requests,
        max_queued_tokens=4 * num_requests * PROMPT_TOKENS,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scheduling.abort_storm",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--requests", type=int, default=10_000, help="cancelled in each round [%(default)s]")
    parser.add_argument("--rounds", type=int, default=3, help="[%(default)s]")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    config = storm_config(arguments.requests)
    report = run_storm(load_model(open_checkpoint("default"), config), config, arguments.requests, arguments.rounds)
    machine = describe_machine()
    if arguments.json:
        sys.stdout.write(json.dumps({"machine": machine, **asdict(report), "ratio": report.ratio}, indent=2) + "\n")
        return
    print(f"{machine}; {NUM_STREAMS} streams beside {arguments.requests:,} requests cancelled a round")
    for each in report.rounds:
        print(
            f"quiet {each.quiet_rate:7.1f} tok/s   storm {each.storm_rate:7.1f} tok/s over {each.storm_s:.2f} s   "
            f"ratio {each.ratio:.3f}   memory {each.memory_mib:.1f} MiB"
        )
    print(f"median ratio {report.ratio:.3f} (aim {AIM}), {report.num_blocks_left} KV blocks left")


if __name__ == "__main__":
    main()
