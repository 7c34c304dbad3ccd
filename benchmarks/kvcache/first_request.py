"""One fresh process: an engine starts and answers its first requests, with its KV pool committed in one of three ways.

    whole      all of the pool gets its memory at start
    chunked    as served: chunks get their memory before the step that comes to them first
    lazy       each page gets its memory when a step first touches it

Run by benchmarks.kvcache.commit, which compares them; prints a `FirstRequest` as JSON.
"""

import argparse
import ctypes
import json
import random
import resource
import sys
import time
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from statistics import median

from tailrace.app import LoadedModel, load_model
from tailrace.classes import STANDARD
from tailrace.config import EngineConfig
from tailrace.kvcache.cache import KvCache
from tailrace.runtime.runner import Runner
from tailrace.scheduler.scheduler import Scheduler, SchedulerConfig
from tailrace.types import Request, SamplingParams
from tailrace.weights.load import open_checkpoint

__all__ = ["FirstRequest", "Pages", "Way", "measure"]

_THP_DISABLE = 41  # PR_SET_THP_DISABLE of linux/prctl.h


class Way(StrEnum):
    WHOLE = "whole"
    CHUNKED = "chunked"
    LAZY = "lazy"


class Pages(StrEnum):
    HUGE = "huge"  # 2 MiB, where the system gives them: what the pool asks for
    SMALL = "small"  # 4 KiB, in the whole process


@dataclass(frozen=True, slots=True)
class FirstRequest:
    """Faults are minor ones, of the whole process; `start` is from loaded weights to an engine that takes requests."""

    start_s: float
    start_faults: int
    start_rss_bytes: int
    start_pool_bytes: int  # resident
    first_token_s: float
    first_faults: int
    second_token_s: float  # of another prompt, as long, which needs memory as well
    pool_bytes: int  # resident after both
    decode_s: float  # a step of one sequence, median


class _Engine:
    """Scheduler and runner in this thread, and nothing around them."""

    def __init__(self, model: LoadedModel, chunk_tokens: int, way: Way) -> None:
        limits = model.limits
        config = SchedulerConfig(
            budget_tokens=limits.max_tokens,
            max_running=limits.max_sequences,
            max_model_tokens=limits.max_model_tokens,
            eos_ids=(),
            classes=STANDARD.patient,
        )
        self._scheduler = Scheduler(config, KvCache(replace(model.plan.kv_config, chunk_tokens=chunk_tokens)))
        self._runner = Runner(model.executable, limits, ())
        self._commits = way is not Way.LAZY

    def add(self, request: Request) -> None:
        self._scheduler.add(replace(request, arrival_s=time.monotonic()))

    def step(self) -> int:
        """How many tokens came of it."""
        plan = self._scheduler.plan(time.monotonic())
        if plan is None:
            return 0
        result = self._runner.run(plan if self._commits else replace(plan, committed=()))
        return len(self._scheduler.commit(result, time.monotonic()))

    def first_token_s(self, request: Request) -> float:
        started_s = time.perf_counter()
        self.add(request)
        while not self.step():
            pass
        return time.perf_counter() - started_s

    def decode_s(self) -> float:
        times = []
        started_s = time.perf_counter()
        while self.step():
            ended_s = time.perf_counter()
            times.append(ended_s - started_s)
            started_s = ended_s
        return median(times)


def measure(model_name: str | None, config: EngineConfig, way: Way, num_prompt_tokens: int) -> FirstRequest:
    """Start an engine and give it two prompts, one after the other."""
    model = load_model(open_checkpoint(model_name), config)
    before = _faults()
    started_s = time.perf_counter()
    engine = _Engine(model, config.kv_chunk_tokens, way)
    if way is Way.WHOLE:
        model.executable.populate(range(model.limits.num_blocks))
    start_s = time.perf_counter() - started_s
    started = _faults()
    start_rss, start_pool = _rss_bytes(), model.executable.kv_resident_bytes
    vocab_size = model.checkpoint.config.vocab_size
    first_token_s = engine.first_token_s(_request("first", vocab_size, num_prompt_tokens))
    first_faults = _faults() - started
    decode_s = engine.decode_s()
    second_token_s = engine.first_token_s(_request("second", vocab_size, num_prompt_tokens))
    return FirstRequest(
        start_s=start_s,
        start_faults=started - before,
        start_rss_bytes=start_rss,
        start_pool_bytes=start_pool,
        first_token_s=first_token_s,
        first_faults=first_faults,
        second_token_s=second_token_s,
        pool_bytes=model.executable.kv_resident_bytes,
        decode_s=decode_s,
    )


def _request(name: str, vocab_size: int, num_tokens: int) -> Request:
    draw = random.Random(name)
    return Request(name, [draw.randrange(vocab_size) for _ in range(num_tokens)], SamplingParams(32, temperature=0.0))


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kvcache.first_request")
    parser.add_argument("way", type=Way, choices=Way)
    parser.add_argument("pages", type=Pages, choices=Pages)
    parser.add_argument("--model")
    parser.add_argument("--kv-memory", type=int, required=True, help="bytes")
    parser.add_argument("--chunk-tokens", type=int, required=True)
    parser.add_argument("--prompt", type=int, required=True, help="tokens")
    arguments = parser.parse_args()
    if arguments.pages is Pages.SMALL and ctypes.CDLL(None).prctl(_THP_DISABLE, 1, 0, 0, 0) != 0:
        parser.error("this system cannot do without huge pages")
    config = EngineConfig(kv_memory_bytes=arguments.kv_memory, kv_chunk_tokens=arguments.chunk_tokens)
    found = measure(arguments.model, config, arguments.way, arguments.prompt)
    sys.stdout.write(json.dumps(asdict(found)) + "\n")


if __name__ == "__main__":
    main()
