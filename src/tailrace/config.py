"""Settings, one small frozen config per part, resolved once at start."""

from dataclasses import dataclass, field
from typing import Literal

__all__ = ["EngineConfig", "ModelSource", "ServeConfig"]


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Which model: a GGUF file, a Hugging Face directory, a hub id, tiny-deepseek; None or "default": the embedded."""

    model: str | None = None
    quantize: Literal["int8", "int4"] | None = None


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Bounds of the engine. None means: chosen from the model and the machine."""

    backend: str = "auto"
    num_threads: int | None = None
    block_tokens: int = 16
    kv_memory_bytes: int | None = None
    kv_format: Literal["bf16", "int8", "f32"] | None = None  # how keys and values are kept
    budget_tokens: int = 512  # tokens one step may compute
    chunk_tokens: int = 32  # of these, prompt tokens beside running streams
    max_running: int = 64
    max_queued: int = 1024
    max_queued_tokens: int = 1_000_000
    max_model_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ServeConfig:
    source: ModelSource = field(default_factory=ModelSource)
    engine: EngineConfig = field(default_factory=EngineConfig)
    name: str | None = None  # what clients call the model; None: the checkpoint's own name
    host: str = "127.0.0.1"
    port: int = 8000
