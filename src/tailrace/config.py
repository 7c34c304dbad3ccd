"""Settings, one small frozen config per part, resolved once at start."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tailrace.classes import STANDARD, ServiceClasses
from tailrace.frontends.trace_sampler import TraceSampler
from tailrace.levels.config import LevelsConfig
from tailrace.rules.rule import Rule
from tailrace.rules.standard import standard_rules
from tailrace.weights.precision import AS_STORED, KvCacheDtype, Precision

__all__ = [
    "EngineConfig",
    "KvCacheDtype",
    "KvEventsConfig",
    "LazyExperts",
    "ModelSource",
    "OtlpConfig",
    "ServeConfig",
    "WarmConfig",
]

LazyExperts = int | Literal["auto"] | None
"""Bytes of memory for experts that are loaded when they are chosen; auto: half of what is free beside the KV cache.

None: all experts are loaded at the start.
"""


ChatFormatName = Literal[
    "auto",
    "deepseek-r1",
    "deepseek-r1-0528",
    "deepseek-v3",
    "deepseek-v3.1",
    "deepseek-v3.2",
    "deepseek-v4",
    "hermes",
    "llama3",
    "template",
]
"""The formats of `service.formats.registry`, here without loading it; auto: as the model's template says."""


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Which model: a GGUF file, a Hugging Face directory, a hub id, tiny-deepseek; None or "default": the embedded."""

    model: str | None = None
    quantize: Precision = AS_STORED
    cache_bytes: int = 64 << 30  # on disk, of packed weights that the next start can map
    chat_format: ChatFormatName = "auto"  # how conversations are written


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Bounds of the engine. None means: chosen from the model and the machine."""

    backend: str = "auto"
    num_threads: int | None = None
    block_tokens: int = 16
    kv_memory_bytes: int | None = None
    kv_chunk_tokens: int = 128  # KV memory comes and goes for so many tokens at a time
    kv_cache_dtype: KvCacheDtype | None = None  # how keys and values are kept
    budget_tokens: int = 512  # tokens one step may compute
    chunk_tokens: int | None = None  # of these, of prompts beside running streams; None: as many as they can bear
    max_running: int = 64
    max_queued: int = 1024
    max_queued_tokens: int = 1_000_000
    max_tenant_requests: int | None = None  # of one tenant, queued or running
    max_model_tokens: int | None = None
    classes: ServiceClasses = STANDARD
    lazy_experts: LazyExperts = None


@dataclass(frozen=True, slots=True)
class WarmConfig:
    """What the server computes ahead while nobody waits."""

    prompts: Path | None = None  # a list of prompts to begin with
    state: Path | None = None  # keeps from one start to the next what users' prompts began with
    max_tokens: int = 262_144  # of users' prompts, remembered in memory; 0: none are


@dataclass(frozen=True, slots=True)
class KvEventsConfig:
    """Where to publish what becomes of blocks, such as tcp://127.0.0.1:5557; replays are on the next port."""

    endpoint: str
    topic: str = "kv-events"


@dataclass(frozen=True, slots=True)
class OtlpConfig:
    """A collector of traces, such as http://localhost:4318, and which of them it gets."""

    url: str
    sampler: TraceSampler = field(default_factory=TraceSampler)


@dataclass(frozen=True, slots=True)
class ServeConfig:
    source: ModelSource = field(default_factory=ModelSource)
    engine: EngineConfig = field(default_factory=EngineConfig)
    name: str | None = None  # what clients call the model; None: the checkpoint's own name
    host: str = "127.0.0.1"
    port: int = 8000
    admin_key: str | None = field(default=None, repr=False)  # of those who may look into the cache and empty it
    api_keys: Path | None = None  # a file with those of who may have answers, and their classes; None: anybody may
    warm: WarmConfig = field(default_factory=WarmConfig)
    kv_events: KvEventsConfig | None = None
    levels: LevelsConfig = field(default_factory=lambda: LevelsConfig(host_bytes="auto"))
    api_key: str | None = field(default=None, repr=False)  # of who may have answers, where there is no file of them
    max_answer_tokens: int | None = None  # of one request, all choices together
    cors_origins: tuple[str, ...] = ()  # of web pages that may call from browsers
    has_console: bool = True
    keep_alive_s: float = 15.0  # silence of a stream after which it says that it lives; 0: it never does
    stall_s: float = 30.0  # so long a stream's client may take nothing
    grpc_port: int | None = None
    shm: str | None = None  # the server's name for clients in shared memory; None: it takes none
    num_workers: int = 1  # API processes
    max_restarts: int = 5  # of a process that dies, in a minute
    patience_s: float = 10.0  # with an engine that hangs
    rules: tuple[Rule, ...] | None = None  # of what is done when something is wrong; None: the standard ones
    drain_s: float = 30.0  # what requests under way have to end when the server is told to stop
    otlp: OtlpConfig | None = None  # who gets traces; None: nobody
    pyroscope: str | None = None  # the address of who gets profiles; None: nobody

    @property
    def settled_rules(self) -> tuple[Rule, ...]:
        """Those that were given, or the standard ones for these classes and levels."""
        return standard_rules(self.engine.classes, self.levels.levels) if self.rules is None else self.rules
