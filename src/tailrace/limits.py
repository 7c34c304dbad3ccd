"""Bounds of an engine, from its settings, its model and the machine."""

import os
from pathlib import Path

from tailrace.config import EngineConfig, LazyExperts
from tailrace.errors import SetupError
from tailrace.ops.api import Limits
from tailrace.ops.program import LatentAttention, PagedAttention, Program
from tailrace.weights.checkpoint import Checkpoint

__all__ = ["available_bytes", "settle_limits", "widest_window"]

_KV_SHARE_OF_MEMORY = 0.25
_MIN_MODEL_TOKENS = 2  # a prompt and an answer of one token each


def widest_window(program: Program) -> int | None:
    """How many positions some layer looks back; None when one of them sees everything."""
    layers = [op for op in program.ops if isinstance(op, PagedAttention | LatentAttention)]
    windows = [op.window for op in layers if isinstance(op, PagedAttention) and op.window is not None]
    return max(windows) if layers and len(windows) == len(layers) else None


def settle_limits(checkpoint: Checkpoint, block_bytes: int, config: EngineConfig) -> Limits:
    max_model_tokens = _max_model_tokens(checkpoint, config)
    blocks_wanted = config.max_running * -(-max_model_tokens // config.block_tokens)
    memory_bytes = config.kv_memory_bytes or int(available_bytes() * _KV_SHARE_OF_MEMORY)
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
        expert_bytes=_expert_bytes(checkpoint, num_blocks * block_bytes, config.lazy_experts),
    )


def _expert_bytes(checkpoint: Checkpoint, kv_bytes: int, wanted: LazyExperts) -> int | None:
    """Memory for experts that are loaded when they are chosen. The rest of what is free is for all else, and files."""
    if wanted is None:
        return None
    if checkpoint.config.mixture is None:
        raise SetupError(f"{checkpoint.name} is no mixture of experts: leave --lazy-experts out")
    return max((available_bytes() - kv_bytes) // 2, 1) if wanted == "auto" else wanted


def _max_model_tokens(checkpoint: Checkpoint, config: EngineConfig) -> int:
    trained = checkpoint.config.max_model_tokens
    wanted = trained if config.max_model_tokens is None else config.max_model_tokens
    if not _MIN_MODEL_TOKENS <= wanted <= trained:
        raise SetupError(
            f"{checkpoint.name} takes {_MIN_MODEL_TOKENS} to {trained:,} tokens, prompt and answer together, "
            f"not {wanted:,}: change --max-model-tokens"
        )
    return wanted


def available_bytes() -> int:
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
