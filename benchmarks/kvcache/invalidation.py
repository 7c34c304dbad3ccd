"""How soon what one engine is told to forget is forgotten everywhere.

    python -m benchmarks.kvcache.invalidation [--rounds 30] [--blocks 94] [--kept 10000] [--json]

Three processes with a cache and its levels, and no model: this one, its neighbour, which shares the host level and a
Redis server with it, and one elsewhere, which shares the Redis server alone. In each round all of them have a prompt of
`--blocks` blocks beside `--kept` others, and this one is told to forget it. The others look before each of their steps,
which here take half a millisecond. Clocks are one: CLOCK_MONOTONIC of the machine.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.serving.machine import describe_machine
from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.kvcache.forget import Forget, Scope
from tailrace.kvcache.invalidate import forgets_of
from tailrace.kvcache.transfer import BlockHead, ForgetNotice
from tailrace.levels.api import BlockLevel, StoredBlock
from tailrace.levels.config import HOST_DIRECTORY
from tailrace.levels.host import HostLevel
from tailrace.levels.redis import open_redis
from tailrace.runtime.kv_store import KvStore
from tailrace.types import PromptTarget
from tests.support.redis_server import running_redis

__all__ = ["Figure", "figures", "measure"]

BLOCK_TOKENS = 16
BLOCK_BYTES = 4096
TTL_S = 3600.0
STEP_S = 0.0005
KEPT_PROMPT_BLOCKS = 50
BOUNDS_MS = {
    "engine, one block": 5.0,
    "engine, the prompt": None,
    "host level, the prompt": 20.0,
    "neighbour's engine": 20.0,
    "redis level told": None,
    "engine elsewhere": 100.0,
}


@dataclass(frozen=True, slots=True)
class Figure:
    what: str
    median_ms: float
    max_ms: float
    bound_ms: float | None  # as promised


def figures(times_s: dict[str, list[float]]) -> list[Figure]:
    return [Figure(what, median(each) * 1e3, max(each) * 1e3, BOUNDS_MS[what]) for what, each in times_s.items()]


@dataclass(frozen=True, slots=True)
class Setting:
    """What the processes share."""

    directory: Path
    redis_url: str
    num_blocks: int  # of the prompt that is forgotten
    num_kept: int

    @property
    def max_blocks(self) -> int:
        return 2 * (self.num_kept + 2 * self.num_blocks)

    def prompt(self, number: int) -> range:
        first = 1_000_000 + number * 10_000
        return range(first, first + self.num_blocks * BLOCK_TOKENS)

    def kept(self) -> Iterator[range]:
        """Prompts of as many blocks as are kept, or a few less."""
        num_tokens = KEPT_PROMPT_BLOCKS * BLOCK_TOKENS
        return (range(start, start + num_tokens) for start in range(0, self.num_kept * BLOCK_TOKENS, num_tokens))


class Engine:
    """A cache and what is below it."""

    def __init__(self, setting: Setting, *, has_host: bool) -> None:
        self.cache = KvCache(KvCacheConfig(setting.max_blocks, BLOCK_TOKENS, ("benchmark",)))
        fingerprint = self.cache.open("").owner.fingerprint
        self.everything = Forget(Scope.FINGERPRINT, fingerprint)
        self.redis = open_redis(setting.redis_url, fingerprint, TTL_S, timeout_s=2.0)
        self.host: HostLevel | None = None
        if has_host:
            self.host = HostLevel(BLOCK_BYTES, setting.max_blocks * (BLOCK_BYTES + 512), directory=setting.directory)

    @property
    def levels(self) -> list[BlockLevel]:
        return [self.redis] if self.host is None else [self.host, self.redis]

    def compute(self, prompt: Sequence[int]) -> list[BlockHead]:
        """The heads of its blocks, which are cached from then on."""
        cache = self.cache
        table = cache.open("")
        if cache.acquire(table, cache.match(table, prompt), len(prompt), spare=0) is None:
            raise ValueError("the cache is too small for what is kept in it")
        cache.seal(table, prompt, len(prompt))
        heads = [cache.head(block) for block in table.blocks]
        cache.release(table)
        return heads

    def keep(self, heads: Sequence[BlockHead]) -> None:
        """Put blocks on all levels."""
        data = memoryview(bytes(BLOCK_BYTES))
        for level in self.levels:
            version = 0 if level.log is None else level.log.version()
            level.put([StoredBlock(head, data) for head in heads], version)


def follow(setting: Setting, asked: Connection, *, has_host: bool) -> None:
    """Another process: for each prompt it is sent, have it, then say when it was forgotten. Ends with None."""
    engine = Engine(setting, has_host=has_host)
    pool = np.zeros((8, BLOCK_BYTES), np.uint8)
    store = KvStore(engine.levels, pool, lambda: None, engine.everything)
    for prompt in setting.kept():
        engine.compute(prompt)
    while (number := asked.recv()) is not None:
        for notice in store.take():
            assert isinstance(notice, ForgetNotice)  # of the round before
        engine.compute(setting.prompt(number))
        asked.send(time.monotonic())
        asked.send(_forgotten_s(engine, store, setting.prompt(number)))
    store.close()


def _forgotten_s(engine: Engine, store: KvStore, prompt: Sequence[int]) -> float:
    while True:
        for notice in store.take():
            assert isinstance(notice, ForgetNotice)
            engine.cache.forget(*notice.forgets)
        if not engine.cache.match(engine.cache.open(""), prompt).blocks:
            return time.monotonic()
        time.sleep(STEP_S)


@contextmanager
def followers(setting: Setting) -> Iterator[list[Connection]]:
    """The neighbour and the one elsewhere."""
    context = get_context("spawn")
    ours, processes = [], []
    for has_host in (True, False):
        mine, theirs = context.Pipe()
        process = context.Process(target=follow, args=(setting, theirs), kwargs={"has_host": has_host})
        process.start()
        ours.append(mine)
        processes.append(process)
    yield ours
    for connection, process in zip(ours, processes, strict=True):
        connection.send(None)
        process.join()


def measure(num_rounds: int, num_blocks: int, num_kept: int) -> list[Figure]:
    with ExitStack() as stack:
        redis = stack.enter_context(running_redis())
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=HOST_DIRECTORY)))
        setting = Setting(directory, redis.url, num_blocks, num_kept)
        engine = Engine(setting, has_host=True)
        for prompt in setting.kept():
            engine.keep(engine.compute(prompt))
        others = stack.enter_context(followers(setting))
        rounds = [_round(engine, setting, others, number) for number in range(num_rounds)]
    return figures({what: [times[what] for times in rounds] for what in BOUNDS_MS})


def _round(engine: Engine, setting: Setting, others: Sequence[Connection], number: int) -> dict[str, float]:
    """Seconds from being told to the end of each part."""
    prompt = setting.prompt(number)
    heads = engine.compute(prompt)
    engine.keep(heads)
    for other in others:
        other.send(number)
    for other in others:
        other.recv()
    assert engine.host is not None
    times_s = [time.monotonic()]
    engine.cache.forget(Forget(Scope.BLOCK, heads[-1].name))
    times_s.append(time.monotonic())
    forgets = forgets_of(PromptTarget(prompt), engine.cache)
    engine.cache.forget(*forgets)
    times_s.append(time.monotonic())
    engine.host.forget(forgets)
    times_s.append(time.monotonic())
    engine.redis.forget(forgets)
    times_s.append(time.monotonic())
    neighbour_s, elsewhere_s = (other.recv() for other in others)
    began_s, block_s, engine_s, host_s, redis_s = times_s
    return {
        "engine, one block": block_s - began_s,
        "engine, the prompt": engine_s - block_s,
        "host level, the prompt": host_s - engine_s,
        "neighbour's engine": neighbour_s - engine_s,
        "redis level told": redis_s - host_s,
        "engine elsewhere": elsewhere_s - host_s,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kvcache.invalidation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--blocks", type=int, default=94, help="of the prompt: 94 hold 1,500 tokens")
    parser.add_argument("--kept", type=int, default=10_000, help="blocks besides")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found, machine = measure(arguments.rounds, arguments.blocks, arguments.kept), describe_machine()
    if arguments.json:
        rows: list[dict[str, Any]] = [{field: getattr(figure, field) for field in Figure.__slots__} for figure in found]
        settings = {"rounds": arguments.rounds, "blocks": arguments.blocks, "kept": arguments.kept}
        sys.stdout.write(json.dumps({"machine": machine, **settings, "rows": rows}, indent=2) + "\n")
        return
    print(f"{machine}; {arguments.blocks} blocks forgotten beside {arguments.kept:,}, {arguments.rounds} rounds")
    for row in found:
        bound = "" if row.bound_ms is None else f"   bound {row.bound_ms:g} ms"
        print(f"{row.what:24} median {row.median_ms:8.2f} ms   max {row.max_ms:8.2f} ms{bound}")


if __name__ == "__main__":
    main()
