"""Measures a model that nobody has here: its shape with random weights, at its real size, through the engine."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, prod

from tailrace.app import LoadedModel, available_bytes, load_model
from tailrace.config import EngineConfig
from tailrace.errors import SetupError
from tailrace.measure.reads import read_bytes
from tailrace.measure.report import ShapeReport, decode_report
from tailrace.measure.streams import SteadyDecode, Streams, Workload, run_workload
from tailrace.models.registry import build_program
from tailrace.ops.api import Progress
from tailrace.ops.load import load_backend, reading_rate
from tailrace.ops.program import Program
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.synthetic import SyntheticFormat
from tailrace.weights.synthetic_checkpoint import packed_bytes, synthetic_checkpoint

__all__ = ["Shape", "measure_shape"]

_OTHER_BYTES = 512 << 20  # the interpreter and its libraries, activations
_RATE_BYTES = 512 << 20  # read to find the rate of reading: beyond any cache


@dataclass(frozen=True, slots=True)
class Shape:
    """Which model, how its weights are packed, and what they are drawn from."""

    name: str
    weights: SyntheticFormat = "int4"
    seed: int = 0


def measure_shape(
    shape: Shape,
    workload: Workload,
    config: EngineConfig,
    *,
    progress: Progress,
    say: Callable[[str], None],
) -> ShapeReport:
    """Draw and load the model, and run the workload; `say` is told what is being measured.

    Raises SetupError when there is no such shape, or the memory will not do.
    """
    checkpoint = synthetic_checkpoint(shape.name, shape.weights, shape.seed)
    program = build_program(checkpoint.config)
    bytes_of = packed_bytes(program, shape.weights)
    _refuse_too_long(checkpoint, workload)
    config = _settled(program, config, workload)
    _refuse_too_large(shape, bytes_of, config)
    started_s = time.monotonic()
    model = load_model(checkpoint, config, progress)
    loaded = _Loaded(shape, program, bytes_of, model, load_s=time.monotonic() - started_s)
    try:
        streams = run_workload(model, config, workload, rate=partial(_rate, config), say=say)
        return loaded.report(workload, streams)
    finally:
        model.executable.close()


def _refuse_too_long(checkpoint: Checkpoint, workload: Workload) -> None:
    most = checkpoint.config.max_model_tokens
    if workload.max_model_tokens > most:
        raise SetupError(f"{checkpoint.name} is made for {most:,} tokens, prompt and answer together")


def _settled(program: Program, config: EngineConfig, workload: Workload) -> EngineConfig:
    """The config with room for this workload and no more."""
    block_bytes = load_backend(config.backend, config.kv_cache_dtype).kv_bytes_per_block(program, config.block_tokens)
    blocks_each = ceil(workload.max_model_tokens / config.block_tokens) + 1
    return replace(
        config,
        num_threads=config.num_threads or len(os.sched_getaffinity(0)),
        kv_memory_bytes=workload.num_prompts * blocks_each * block_bytes,
        max_running=workload.num_prompts,
        max_model_tokens=workload.max_model_tokens,
    )


def _refuse_too_large(shape: Shape, bytes_of: Mapping[str, int], config: EngineConfig) -> None:
    drawn = sum(bytes_of.values()) + max(bytes_of.values())  # all, and once more the one that is being packed
    needed, available = drawn + (config.kv_memory_bytes or 0) + _OTHER_BYTES, available_bytes()
    if needed > available:
        raise SetupError(
            f"{shape.name} in {shape.weights} needs {needed / 1e9:.1f} GB of memory and {available / 1e9:.1f} GB are "
            "free: take fewer bits, fewer or shorter streams, or a smaller shape"
        )


def _rate(config: EngineConfig) -> float | None:
    assert config.num_threads is not None
    return reading_rate(config.backend, config.num_threads, _RATE_BYTES)


@dataclass(frozen=True, slots=True)
class _Loaded:
    shape: Shape
    program: Program
    bytes_of: Mapping[str, int]
    model: LoadedModel
    load_s: float

    def report(self, workload: Workload, streams: Streams) -> ShapeReport:
        return ShapeReport(
            name=self.shape.name,
            weights=self.shape.weights,
            back_end=self.model.plan.kv_format,
            num_threads=self.model.limits.num_threads,
            parameters=sum(prod(weight.shape) for weight in self.program.weights.values()),
            weight_bytes=self.model.executable.weight_bytes,
            load_s=self.load_s,
            prompt_tokens=workload.prompt_tokens,
            prefills_ms=[1e3 * prefill_s for prefill_s in streams.prefills_s],
            decodes=[decode_report(decode, self._read_bytes(decode)) for decode in streams.decodes],
        )

    def _read_bytes(self, decode: SteadyDecode) -> float:
        """What a step reads: the weights that it needs, and all keys and values."""
        kv_bytes_per_token = self.model.executable.kv_bytes_per_block / self.model.limits.block_tokens
        kv_bytes = decode.num_streams * decode.context_tokens * kv_bytes_per_token
        return read_bytes(self.program, self.bytes_of, decode.num_streams) + kv_bytes
