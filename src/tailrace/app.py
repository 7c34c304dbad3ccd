"""From a model argument to a running engine: the wiring that the server and the library share."""

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tailrace.config import EngineConfig
from tailrace.engine.engine import Engine, Publish
from tailrace.engine.intake import Intake, IntakeConfig
from tailrace.engine.local import LocalEngine
from tailrace.errors import SetupError
from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.models.registry import build_program
from tailrace.ops.api import Executable, Limits, Program
from tailrace.ops.load import load_backend
from tailrace.records import RecordSink
from tailrace.runtime.runner import Runner
from tailrace.scheduler.scheduler import Scheduler, SchedulerConfig
from tailrace.weights.checkpoint import Checkpoint

__all__ = ["LoadedModel", "build_engine", "load_model", "start_engine"]

_KV_VALUE_BYTES = 2  # what the pool is sized for: back ends keep KV in 16 bit
_KV_SHARE_OF_MEMORY = 0.25


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A checkpoint on a device, with the bounds that were settled for it."""

    checkpoint: Checkpoint
    executable: Executable
    limits: Limits
    kv_format: str


def load_model(checkpoint: Checkpoint, config: EngineConfig) -> LoadedModel:
    """Record the model, settle the bounds, move the weights. Takes seconds for large models."""
    program = build_program(checkpoint.config)
    limits = _limits(checkpoint, program, config)
    backend = load_backend(config.backend)
    executable = backend.load(program, checkpoint.tensors, limits)
    return LoadedModel(checkpoint, executable, limits, kv_format=backend.name)


def start_engine(model: LoadedModel, config: EngineConfig, emit: RecordSink) -> LocalEngine:
    """Build both columns and start the step loop. Call on the event loop that will read the streams."""
    max_model_tokens = min(model.limits.max_model_tokens, model.limits.num_blocks * model.limits.block_tokens)
    intake = Intake(IntakeConfig(config.max_queued, config.max_queued_tokens, max_model_tokens))
    return LocalEngine(intake, max_model_tokens, partial(build_engine, model, config, intake, emit=emit))


def build_engine(
    model: LoadedModel, config: EngineConfig, intake: Intake, publish: Publish, emit: RecordSink
) -> Engine:
    """Both columns and the loop that joins them, not yet running."""
    checkpoint, limits = model.checkpoint, model.limits
    rope = (checkpoint.config.rope_theta, checkpoint.config.rope_scaling, limits.max_model_tokens)
    cache = KvCache(
        KvCacheConfig(
            num_blocks=limits.num_blocks,
            block_tokens=limits.block_tokens,
            root_parts=(checkpoint.fingerprint, model.kv_format, repr(rope)),
        )
    )
    scheduler = Scheduler(
        SchedulerConfig(
            budget_tokens=limits.max_tokens,
            max_running=limits.max_sequences,
            # The intake refuses first; the scheduler's own bound leaves room for preempted requests that wait again.
            max_waiting=config.max_queued + limits.max_sequences,
            max_waiting_tokens=config.max_queued_tokens + limits.max_sequences * limits.max_model_tokens,
            max_model_tokens=limits.max_model_tokens,
            eos_ids=checkpoint.eos_ids,
        ),
        cache,
    )
    runner = Runner(model.executable, limits, checkpoint.eos_ids)
    return Engine(scheduler, runner, intake, publish=publish, emit=emit)


def _limits(checkpoint: Checkpoint, program: Program, config: EngineConfig) -> Limits:
    max_model_tokens = min(
        config.max_model_tokens or checkpoint.config.max_model_tokens, checkpoint.config.max_model_tokens
    )
    block_bytes = program.kv_values_per_token * config.block_tokens * _KV_VALUE_BYTES
    blocks_wanted = config.max_running * -(-max_model_tokens // config.block_tokens)
    memory_bytes = config.kv_memory_bytes or int(_available_bytes() * _KV_SHARE_OF_MEMORY)
    num_blocks = min(blocks_wanted, memory_bytes // block_bytes)
    if num_blocks < 2:
        raise SetupError(
            f"{memory_bytes:,} bytes of KV memory hold no two blocks of {block_bytes:,} bytes: raise --kv-memory"
        )
    return Limits(
        max_tokens=max(config.budget_tokens, config.max_running),
        max_samples=config.max_running,
        max_sequences=config.max_running,
        max_model_tokens=max_model_tokens,
        num_blocks=num_blocks,
        block_tokens=config.block_tokens,
        num_threads=config.num_threads or len(os.sched_getaffinity(0)),
    )


def _available_bytes() -> int:
    """Memory this process may still take: what the machine has free, within the limit of its control group."""
    meminfo = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text("ascii").splitlines())
    available = int(meminfo["MemAvailable"].split()[0]) * 1024
    cgroup = Path("/sys/fs/cgroup")
    try:
        limit = int((cgroup / "memory.max").read_text("ascii"))
        used = int((cgroup / "memory.current").read_text("ascii"))
    except (OSError, ValueError):  # no control group, or its limit is the word "max"
        return available
    return min(available, limit - used)
