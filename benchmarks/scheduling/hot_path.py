"""What Python costs between two native calls in steady decode, part by part, and what it leaves behind.

    python -m benchmarks.scheduling.hot_path [--json] [--model NAME] [--streams 1 8 32 64] [--steps 1000]
                                             [--levels] [--no-device]

The real engine with the sinks of a server, stepped in this thread; the streams are read on an event loop between the
steps, outside of what is timed. With `--no-device` memory is read instead of a model being computed: the processor's
caches hold as little of the interpreter's data afterwards, and the same token is drawn for ever. `--levels` saves
blocks in shared memory, as a server does by default.

    drain     look for new requests              commit    append tokens, seal blocks, end requests
    plan      choose what to compute             publish   wake the event loop
    arrays    the plan as arrays                 record    say what the step was
    device    the native call                    sinks     count it
    unpack    drawn tokens with their requests   tell      say what ended, what became of blocks

What is left behind is measured over as many steps again, without a device: bytes a token (`left_bytes`), of these what
is not in the cache's names of blocks (`beside_cache_bytes`; 4 to 5 are the token's id), memory blocks of the
interpreter a step, and how often the garbage collector ran in each generation. Windows of seconds, such as that of the
gaps between tokens, are still filling when steps of one stream take no time.
"""

import argparse
import asyncio
import gc
import json
import sys
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import uvloop

from benchmarks.serving.machine import describe_machine
from tailrace.app import LoadedModel, build_engine, load_model
from tailrace.config import EngineConfig
from tailrace.engine.collector import settle_collector
from tailrace.engine.engine import Engine
from tailrace.engine.intake import Intake, IntakeConfig
from tailrace.engine.stream import EventStream, StreamTable
from tailrace.levels.config import HOST_DIRECTORY, LevelsConfig
from tailrace.ops.api import MAX_TOP_LOGPROBS, Executable, SampleOutputs, SamplingInputs, StepInputs
from tailrace.records import Record, StepRecord
from tailrace.runtime.kv_store import KvStore
from tailrace.telemetry.prometheus import Metrics
from tailrace.types import OpTime, Request, SamplingParams, TokenEvent
from tailrace.weights.load import open_checkpoint

__all__ = ["Allocations", "Figures", "HotPath", "Parts", "hot_path", "measure"]

PROMPT_TOKENS = 64
WARM_STEPS = 300  # windows of figures are full by then
TOKEN_ID = 7
WEIGHT_BYTES = 64 << 20  # more than the caches hold


class Parts(NamedTuple):
    """Seconds of one step."""

    drain: float
    plan: float
    arrays: float
    device: float
    unpack: float
    commit: float
    publish: float
    record: float
    sinks: float
    tell: float

    @property
    def python(self) -> float:
        return sum(self) - self.device


@dataclass(frozen=True, slots=True)
class Allocations:
    """Under steady decode; bytes and blocks behind each token that was drawn."""

    num_steps: int
    left_bytes: float
    beside_cache_bytes: float
    blocks: float  # of the interpreter's allocator, per step
    num_collections: tuple[int, ...]  # of each generation


@dataclass(frozen=True, slots=True)
class Figures:
    """Medians over the steps."""

    num_streams: int
    step_us: float
    python_us: float
    python_p99_us: float
    python_share: float
    parts_us: dict[str, float]
    left: Allocations

    @classmethod
    def of(cls, num_streams: int, parts: Sequence[Parts], left: Allocations) -> "Figures":
        python = sorted(each.python for each in parts)
        step_s = median(map(sum, parts))
        of_parts = zip(Parts._fields, zip(*parts, strict=True), strict=True)
        return cls(
            num_streams,
            round(step_s * 1e6, 1),
            round(median(python) * 1e6, 1),
            round(python[len(python) * 99 // 100] * 1e6, 1),
            round(median(python) / step_s, 4),
            {name: round(median(times) * 1e6, 1) for name, times in of_parts},
            left,
        )


class Device:
    """An executable that notes when it is called and when it returns."""

    def __init__(self, executable: Executable, max_samples: int, read_bytes: int) -> None:
        """`read_bytes`: of memory, instead of computing; 0: compute."""
        self._executable: Any = executable
        self._weights = np.ones(read_bytes, np.uint8)
        self._token_ids = np.full(max_samples, TOKEN_ID, np.int32)
        self._logprobs = np.zeros(max_samples, np.float32)
        self._top_ids = np.zeros((max_samples, MAX_TOP_LOGPROBS), np.int32)
        self._top_logprobs = np.zeros((max_samples, MAX_TOP_LOGPROBS), np.float32)
        self.entered_s = self.left_s = 0.0

    def run(self, step: StepInputs, sampling: SamplingInputs) -> SampleOutputs:
        self.entered_s = time.monotonic()
        if not len(self._weights):
            outputs: SampleOutputs = self._executable.run(step, sampling)
        else:
            self._weights.max()
            num_rows = len(step.sample_rows)
            outputs = SampleOutputs(self._token_ids[:num_rows], self._logprobs, self._top_ids, self._top_logprobs)
        self.left_s = time.monotonic()
        return outputs

    def run_timed(self, step: StepInputs, sampling: SamplingInputs) -> tuple[SampleOutputs, tuple[OpTime, ...]]:
        return self.run(step, sampling), ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executable, name)


class HotPath:
    """An engine with streams that only go on. One event loop, which runs between the steps."""

    def __init__(
        self, model: LoadedModel, config: EngineConfig, *, read_bytes: int, levels: LevelsConfig | None
    ) -> None:
        self._device = Device(model.executable, model.limits.max_samples, read_bytes)
        self._loop = uvloop.new_event_loop()
        self._table = StreamTable(self._loop)
        self._metrics = Metrics(model_name="hot-path", version="0")
        self._intake = Intake(IntakeConfig(config.max_queued, config.max_queued_tokens, model.limits.max_model_tokens))
        self._store = self._open(model, levels)
        self._record: StepRecord | None = None
        self._published = self._emitted = (0.0, 0.0)
        loaded = replace(model, executable=self._device)
        self.engine: Engine = build_engine(
            loaded, config, self._intake, self._publish, lambda _: None, emit=self._emit, store=self._store
        )

    def start(self, num_streams: int, num_tokens: int) -> None:
        """Bring streams to their steady state; each is read by a task of its own."""
        sampling = SamplingParams(num_tokens, temperature=0.0, ignore_eos=True)
        for number in range(num_streams):
            request_id = f"r{number}"
            stream = self._table.open(request_id)
            self._loop.create_task(_read(stream))
            prompt = tuple(range(1_000 * number, 1_000 * number + PROMPT_TOKENS))
            self._intake.submit(Request(request_id, prompt, sampling))
        while self._record is None or self._record.num_running < num_streams:
            self.engine.drain_intake()
            self.engine.step()
            self._intake.wait(0.005)  # for the levels below: without a device one stream would end before all begin
        for _ in range(WARM_STEPS):
            self.step()

    def step(self) -> Parts:
        begun_s = time.monotonic()
        self.engine.drain_intake()
        drained_s = time.monotonic()
        self.engine.step()
        ended_s = time.monotonic()
        self._loop.run_until_complete(_turn())
        return self._parts(begun_s, drained_s, ended_s)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
        self._loop.run_until_complete(_end_tasks())
        self._loop.close()

    def _parts(self, begun_s: float, drained_s: float, ended_s: float) -> Parts:
        record, device = self._record, self._device
        assert record is not None, "the step had nothing to do"
        return Parts(
            drain=drained_s - begun_s,
            plan=record.planned_s - drained_s,
            arrays=device.entered_s - record.planned_s,
            device=device.left_s - device.entered_s,
            unpack=record.computed_s - device.left_s,
            commit=self._published[0] - record.computed_s,
            publish=self._published[1] - self._published[0],
            record=self._emitted[0] - self._published[1],
            sinks=self._emitted[1] - self._emitted[0],
            tell=ended_s - self._emitted[1],
        )

    def _open(self, model: LoadedModel, levels: LevelsConfig | None) -> KvStore | None:
        if levels is None:
            return None
        pool = model.executable.kv_pool
        return KvStore(model.open_levels(levels), pool, self._intake.wake, model.plan.everything)

    def _publish(self, events: Sequence[TokenEvent]) -> None:
        started_s = time.monotonic()
        self._table.publish(events)
        self._published = started_s, time.monotonic()

    def _emit(self, record: Record) -> None:
        started_s = time.monotonic()
        self._metrics.record(record)
        if isinstance(record, StepRecord):
            self._record = record
            self._emitted = started_s, time.monotonic()


async def _read(stream: EventStream) -> None:
    async for _ in stream:
        pass


async def _turn() -> None:
    """Let what was published reach its readers."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def _end_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def hot_path(
    model: LoadedModel,
    config: EngineConfig,
    num_streams: int,
    num_tokens: int,
    *,
    read_bytes: int,
    levels: LevelsConfig | None = None,
) -> Iterator[HotPath]:
    """Streams in their steady state, with the collector as a server has it."""
    thresholds = gc.get_threshold()
    path = HotPath(model, config, read_bytes=read_bytes, levels=levels)
    try:
        path.start(num_streams, num_tokens)
        settle_collector()
        yield path
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
        path.close()


def survivors(path: HotPath, num_steps: int) -> tuple[float, tuple[int, ...]]:
    """Memory blocks of the interpreter that a step leaves behind, and collections of each generation in all."""
    _fill_free_lists()
    collections, blocks = _num_collections(), sys.getallocatedblocks()
    for _ in range(num_steps):
        path.step()
    blocks = sys.getallocatedblocks() - blocks
    collections = tuple(after - before for before, after in zip(collections, _num_collections(), strict=True))
    return round(blocks / num_steps, 2), collections


def traced_bytes(path: HotPath, num_steps: int) -> tuple[int, int]:
    """Bytes that so many steps leave behind: all, and those outside of the cache."""
    _fill_free_lists()
    gc.disable()  # a collection would empty the lists
    tracemalloc.start()
    try:
        for _ in range(WARM_STEPS):  # what grows is moved once, and known from then on
            path.step()
        before = tracemalloc.take_snapshot()
        for _ in range(num_steps):
            path.step()
        after = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
        gc.enable()
    own, cache = (tracemalloc.Filter(False, name) for name in (tracemalloc.__file__, "*/tailrace/kvcache/*"))
    return _growth(before, after, [own]), _growth(before, after, [own, cache])


def _growth(before: tracemalloc.Snapshot, after: tracemalloc.Snapshot, filters: Sequence[tracemalloc.Filter]) -> int:
    first, last = (sum(trace.size for trace in snapshot.filter_traces(filters).traces) for snapshot in (before, after))
    return last - first


def _fill_free_lists() -> None:
    """The interpreter keeps up to 2,000 tuples of each small size for later: what goes there is not left behind."""
    for size in range(1, 20):
        del [tuple(range(size)) for _ in range(2_000)][:]


def _num_collections() -> tuple[int, ...]:
    return tuple(generation["collections"] for generation in gc.get_stats())


def measure(
    model: LoadedModel,
    config: EngineConfig,
    num_streams: int,
    num_steps: int,
    *,
    read_bytes: int,
    levels: LevelsConfig | None = None,
) -> Figures:
    num_tokens = 2 * (num_steps + WARM_STEPS) + 2 * num_streams
    start = partial(hot_path, model, config, num_streams, num_tokens, levels=levels)
    with start(read_bytes=read_bytes) as path:
        parts = [path.step() for _ in range(num_steps)]
    with start(read_bytes=1) as path:
        blocks, collections = survivors(path, num_steps)
        left, beside = (round(size / num_steps / num_streams, 2) for size in traced_bytes(path, num_steps))
    return Figures.of(num_streams, parts, Allocations(num_steps, left, beside, blocks, collections))


def show(figures: Figures) -> str:
    parts = "  ".join(f"{name} {time_us:.0f}" for name, time_us in figures.parts_us.items())
    left = figures.left
    return (
        f"{figures.num_streams:3} streams: {figures.python_us:6.0f} us of {figures.step_us:8.0f} "
        f"({figures.python_share:.1%}), p99 {figures.python_p99_us:.0f}\n"
        f"    {parts}\n"
        f"    left behind: {left.left_bytes} bytes a token, {left.beside_cache_bytes} of them beside the cache; "
        f"{left.blocks} memory blocks a step; collections {left.num_collections}"
    )


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scheduling.hot_path",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--model", default="default")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 8, 32, 64])
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--levels", action="store_true")
    parser.add_argument("--no-device", action="store_true")
    return parser.parse_args(words)


def main() -> None:
    arguments = parse_arguments()
    longest = PROMPT_TOKENS + 2 * (max(arguments.streams) + WARM_STEPS + arguments.steps)
    config = EngineConfig(max_model_tokens=longest, max_running=max(arguments.streams))
    model = load_model(open_checkpoint(arguments.model), config)
    read_bytes = WEIGHT_BYTES if arguments.no_device else 0
    rows = []
    with TemporaryDirectory(dir=HOST_DIRECTORY) as folder:
        levels = LevelsConfig(256 << 20, host_directory=Path(folder)) if arguments.levels else None
        for num_streams in arguments.streams:
            rows.append(measure(model, config, num_streams, arguments.steps, read_bytes=read_bytes, levels=levels))
            if not arguments.json:
                print(show(rows[-1]), flush=True)
    if arguments.json:
        print(json.dumps({"machine": describe_machine(), "rows": [asdict(row) for row in rows]}, indent=2))


if __name__ == "__main__":
    main()
