"""Where the time of a step goes in steady decode: native code, and each part of the engine around it."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from benchmarks.engine.clocked import CallTimes, ClockedExecutable
from tailrace.app import LoadedModel, build_engine, load_model
from tailrace.config import EngineConfig
from tailrace.engine.client import TokenStream
from tailrace.engine.engine import Engine, Publish, Reply
from tailrace.engine.intake import Intake, IntakeConfig
from tailrace.engine.local import LocalEngine
from tailrace.ops.cpu.backend import CpuExecutable
from tailrace.records import Record, StepRecord
from tailrace.types import Request, SamplingParams, TokenEvent
from tailrace.weights.load import open_checkpoint

__all__ = ["CONFIG", "PARTS", "Attribution", "ClockedStep", "attribute", "load_clocked", "measure_steps", "steady"]

NATIVE = "native"
PARTS = {
    "plan": "choose what to compute, take KV blocks",
    "arrays": "tokens, rows, block tables and sampling settings as arrays",
    "binding": "hand the arrays to native code",
    NATIVE: "the model, and drawing a token for each row; the interpreter is free",
    "results": "drawn tokens back to their requests",
    "commit": "seal blocks, end requests, write the step's record",
    "publish": "wake the event loop that reads the streams",
    "between": "emit the record, look for new requests, wait for the interpreter",
}
PROMPT_TOKENS = 16
CONFIG = EngineConfig(backend="cpu", kv_memory_bytes=512 << 20, max_model_tokens=2048)


@dataclass(frozen=True, slots=True)
class ClockedStep:
    record: StepRecord
    call: CallTimes
    publish_s: float

    def parts_s(self, following: "ClockedStep") -> dict[str, float]:
        """From the start of this step to the start of the next: nothing is left out."""
        record, call = self.record, self.call
        return {
            "plan": record.planned_s - record.started_s,
            "arrays": call.entered_s - record.planned_s,
            "binding": call.left_s - call.entered_s - call.native_s,
            NATIVE: call.native_s,
            "results": record.computed_s - call.left_s,
            "commit": record.finished_s - record.computed_s - self.publish_s,
            "publish": self.publish_s,
            "between": following.record.started_s - record.finished_s,
        }


@dataclass(frozen=True, slots=True)
class Attribution:
    """Medians over the steps: `parts_s` by part, `outside_s` of all but native code together."""

    num_streams: int
    num_steps: int
    period_s: float
    outside_s: float
    parts_s: dict[str, float]

    @property
    def outside_share(self) -> float:
        return self.outside_s / self.period_s


class _Recorder:
    """Collects the steps of an engine, with what its device and its publishing say of them."""

    def __init__(self, executable: ClockedExecutable) -> None:
        self._executable = executable
        self._publish_s = 0.0
        self.steps: list[ClockedStep] = []

    def clocked(self, publish: Publish) -> Publish:
        def clocked_publish(events: Sequence[TokenEvent]) -> None:
            started_s = time.monotonic()
            publish(events)
            self._publish_s = time.monotonic() - started_s

        return clocked_publish

    def emit(self, record: Record) -> None:
        if isinstance(record, StepRecord):
            self.steps.append(ClockedStep(record, self._executable.last, self._publish_s))


def load_clocked() -> tuple[LoadedModel, ClockedExecutable]:
    """The default model behind clocks, in the server's own configuration but for a bound on memory."""
    model = load_model(open_checkpoint("default"), CONFIG)
    assert isinstance(model.executable, CpuExecutable)
    clocked = ClockedExecutable(model.executable)
    return replace(model, executable=clocked), clocked


def measure_steps(model: LoadedModel, executable: ClockedExecutable, num_streams: int, num_steps: int) -> Attribution:
    """Streams that are read on an event loop while the engine steps on its thread, as in the server."""
    recorder = _Recorder(executable)
    asyncio.run(_stream(model, recorder, num_streams, num_steps))
    return attribute(num_streams, list(steady(recorder.steps, num_streams)))


async def _stream(model: LoadedModel, recorder: _Recorder, num_streams: int, num_steps: int) -> None:
    intake = Intake(IntakeConfig(CONFIG.max_queued, CONFIG.max_queued_tokens, model.limits.max_model_tokens))

    def build(publish: Publish, reply: Reply) -> Engine:
        return build_engine(model, CONFIG, intake, recorder.clocked(publish), reply, emit=recorder.emit)

    engine = LocalEngine(intake, build, on_failure=lambda: None)
    sampling = SamplingParams(max_tokens=num_steps, temperature=0.0, ignore_eos=True)
    prompts = (range(1000 * number, 1000 * number + PROMPT_TOKENS) for number in range(1, num_streams + 1))
    streams = [engine.submit(Request(f"r{number}", ids, sampling)) for number, ids in enumerate(prompts)]
    await asyncio.gather(*map(_read, streams))
    engine.close()


async def _read(stream: TokenStream) -> None:
    async for _ in stream:
        pass


def steady(steps: Sequence[ClockedStep], num_streams: int) -> Iterator[tuple[ClockedStep, ClockedStep]]:
    """Steps, each with the next, in which every stream computes one token and nothing else happens."""
    for step, following in pairwise(steps):
        if all(one.record.num_tokens == one.record.num_running == num_streams for one in (step, following)):
            yield step, following


def attribute(num_streams: int, pairs: Sequence[tuple[ClockedStep, ClockedStep]]) -> Attribution:
    """Raises ValueError when there is no steady step."""
    if not pairs:
        raise ValueError(f"no two steps in a row had just {num_streams} streams: let them run longer")
    parts = [step.parts_s(following) for step, following in pairs]
    periods = [sum(of_step.values()) for of_step in parts]
    return Attribution(
        num_streams,
        len(pairs),
        median(periods),
        median(period - of_step[NATIVE] for period, of_step in zip(periods, parts, strict=True)),
        {name: median(of_step[name] for of_step in parts) for name in PARTS},
    )
