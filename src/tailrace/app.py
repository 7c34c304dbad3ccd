"""The composition root: builds every part from its config and joins them, for the server and for the library."""

import asyncio
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import uvloop

from tailrace.config import EngineConfig, ServeConfig
from tailrace.engine.client import EngineClient
from tailrace.engine.engine import Engine, Publish
from tailrace.engine.intake import Intake, IntakeConfig
from tailrace.engine.local import LocalEngine
from tailrace.errors import EngineError, SetupError
from tailrace.frontends.http import serve as http
from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.models.registry import build_program
from tailrace.ops.api import Backend, Executable, Limits
from tailrace.ops.load import load_backend
from tailrace.ops.program import LatentAttention, PagedAttention, Program
from tailrace.records import RecordSink
from tailrace.runtime.runner import Runner
from tailrace.scheduler.scheduler import Scheduler, SchedulerConfig
from tailrace.service.api import ModelCard
from tailrace.service.chat import ChatTemplate
from tailrace.service.late import LateService
from tailrace.service.service import TextService
from tailrace.service.tokenizer import Tokenizer
from tailrace.telemetry.prometheus import Metrics
from tailrace.version import __version__
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.counted import CountedTensors, LoadProgress
from tailrace.weights.load import open_checkpoint

__all__ = [
    "LoadedModel",
    "PlannedModel",
    "available_bytes",
    "build_engine",
    "build_service",
    "load_model",
    "plan_model",
    "serve",
    "start_engine",
]

_KV_SHARE_OF_MEMORY = 0.25
_MIN_MODEL_TOKENS = 2  # a prompt and an answer of one token each


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """A checkpoint with its program, the back end for it and all bounds, before any weight is read."""

    checkpoint: Checkpoint
    program: Program
    backend: Backend
    limits: Limits

    @property
    def kv_format(self) -> str:
        return f"{self.backend.name} {self.backend.kv_format}"

    @property
    def kv_config(self) -> KvCacheConfig:
        # The trained context stretches dynamic scaling; the bound of this server never does.
        config = self.checkpoint.config
        rope = (config.rope_theta, config.rope_scaling, config.max_model_tokens)
        return KvCacheConfig(
            num_blocks=self.limits.num_blocks,
            block_tokens=self.limits.block_tokens,
            root_parts=(self.checkpoint.fingerprint, self.kv_format, repr(rope)),
            window_tokens=_widest_window(self.program),
        )

    @property
    def is_bound_by_kv(self) -> bool:
        """Whether the KV memory cannot hold a request as long as the settings allow."""
        return not self.kv_config.can_hold(self.limits.max_model_tokens)

    @property
    def max_request_tokens(self) -> int:
        """The most tokens of one prompt and its answer."""
        return self.kv_config.num_tokens if self.is_bound_by_kv else self.limits.max_model_tokens

    def card(self, name: str | None = None) -> ModelCard:
        served = name or self.checkpoint.name
        return ModelCard(
            name=served,
            aliases=() if served == self.checkpoint.name else (self.checkpoint.name,),
            created_s=int(time.time()),
            max_model_tokens=self.max_request_tokens,
            vocab_size=self.checkpoint.config.vocab_size,
            is_bound_by_kv=self.is_bound_by_kv,
        )

    def load(self, progress: LoadProgress | None = None) -> "LoadedModel":
        """Move the weights. Takes seconds for large models; `progress` follows."""
        tensors = self.checkpoint.tensors
        if progress is not None:
            tensors = CountedTensors(tensors, progress)
        executable = self.backend.load(self.program, tensors, self.limits)
        self.checkpoint.release_pages()
        return LoadedModel(self, executable)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model on a device."""

    plan: PlannedModel
    executable: Executable

    @property
    def checkpoint(self) -> Checkpoint:
        return self.plan.checkpoint

    @property
    def limits(self) -> Limits:
        return self.plan.limits

    def expert_tokens(self) -> dict[int, list[int]]:
        """Of each layer that is a mixture of experts, the tokens each expert has computed, if somebody counts them."""
        mixture, num_layers = self.checkpoint.config.mixture, self.checkpoint.config.num_layers
        layers = [layer for layer in range(num_layers) if mixture is not None and mixture.is_mixture(layer)]
        return {layer: load.tolist() for layer, load in zip(layers, self.executable.expert_loads, strict=False)}


def plan_model(checkpoint: Checkpoint, config: EngineConfig) -> PlannedModel:
    """Record the model and settle its bounds. Raises SetupError for settings that this model or machine cannot meet."""
    program = build_program(checkpoint.config)
    backend = load_backend(config.backend, config.kv_format)
    limits = _limits(checkpoint, backend.kv_bytes_per_block(program, config.block_tokens), config)
    return PlannedModel(checkpoint, program, backend, limits)


def load_model(checkpoint: Checkpoint, config: EngineConfig, progress: LoadProgress | None = None) -> LoadedModel:
    """Plan and load at once."""
    return plan_model(checkpoint, config).load(progress)


def start_engine(
    model: LoadedModel, config: EngineConfig, emit: RecordSink, on_failure: Callable[[], None]
) -> LocalEngine:
    """Build both columns and start the step loop. Call on the event loop that will read the streams.

    `on_failure` is called there when the loop has ended by itself.
    """
    intake = Intake(IntakeConfig(config.max_queued, config.max_queued_tokens, model.plan.max_request_tokens))
    build = partial(build_engine, model, config, intake, emit=emit)
    return LocalEngine(intake, build, on_failure)


def build_engine(
    model: LoadedModel, config: EngineConfig, intake: Intake, publish: Publish, emit: RecordSink
) -> Engine:
    """Both columns and the loop that joins them, not yet running."""
    checkpoint, limits = model.checkpoint, model.limits
    scheduler = Scheduler(
        SchedulerConfig(
            budget_tokens=limits.max_tokens,
            max_running=limits.max_sequences,
            # The intake refuses first; the scheduler's own bound leaves room for preempted requests that wait again.
            max_waiting=config.max_queued + limits.max_sequences,
            max_waiting_tokens=config.max_queued_tokens + limits.max_sequences * limits.max_model_tokens,
            max_model_tokens=limits.max_model_tokens,
            eos_ids=checkpoint.eos_ids,
            chunk_tokens=config.chunk_tokens,
        ),
        KvCache(model.plan.kv_config),
    )
    runner = Runner(model.executable, limits, checkpoint.eos_ids)
    return Engine(scheduler, runner, intake, publish=publish, emit=emit)


def build_service(checkpoint: Checkpoint, engine: EngineClient, card: ModelCard) -> TextService:
    """The text side of a model over an engine."""
    template = checkpoint.chat_template
    chat = None if template is None else ChatTemplate(template, checkpoint.special_tokens)
    tokenizer = Tokenizer.from_source(checkpoint.tokenizer, add_bos=checkpoint.add_bos, bos_id=checkpoint.bos_id)
    return TextService(engine, tokenizer, chat, card)


def serve(
    config: ServeConfig,
    on_planned: Callable[[PlannedModel], None],
    on_ready: Callable[[str], None],
    progress: LoadProgress | None = None,
) -> None:
    """Serve a model over HTTP until SIGTERM or SIGINT; then let running streams finish.

    `on_planned` is told the bounds before the weights are loaded, `on_ready` the base URL once requests are answered.
    Raises SetupError or ModelError when it cannot start, and EngineError when the engine has failed.
    """
    http.bind(config.host, config.port).close()  # a taken port is said before a download, not after it
    plan = plan_model(open_checkpoint(config.source.model, quantize=config.source.quantize), config.engine)
    on_planned(plan)
    listener = http.bind(config.host, config.port)  # from here on clients get answers: 503 until the weights are there
    uvloop.run(_Server(config, plan, progress).run(listener, on_ready))


class _Server:
    """One run of the HTTP server: it listens while the model loads, and stops when the engine does."""

    def __init__(self, config: ServeConfig, plan: PlannedModel, progress: LoadProgress | None) -> None:
        self._config = config
        self._plan = plan
        self._progress = progress
        card = plan.card(config.name)
        self._metrics = Metrics(model_name=card.name, version=__version__)
        self._service = LateService(card)
        self._engine: LocalEngine | None = None
        self._stop = asyncio.Event()
        self._failure: BaseException | None = None

    async def run(self, listener: socket.socket, on_ready: Callable[[str], None]) -> None:
        host, port = listener.getsockname()[:2]
        loading = asyncio.create_task(self._load(lambda: on_ready(f"http://{host}:{port}")))
        loading.add_done_callback(self._loaded)
        app = create_app(self._service, self._metrics, HttpConfig(version=__version__))
        try:
            await http.serve(app, listener, on_stop=self._service.drain, stop=self._stop)
        finally:
            await asyncio.wait([loading])
            if self._engine is not None:
                self._engine.close()
        if self._failure is not None:
            raise self._failure

    async def _load(self, announce: Callable[[], None]) -> None:
        model = await asyncio.to_thread(self._plan.load, self._progress)
        self._metrics.experts.watch(model.expert_tokens)
        self._engine = start_engine(model, self._config.engine, self._metrics.record, on_failure=self._engine_failed)
        service = await asyncio.to_thread(build_service, model.checkpoint, self._engine, self._service.model)
        self._service.arrive(service)
        announce()

    def _loaded(self, loading: asyncio.Task[None]) -> None:
        if (error := loading.exception()) is not None:
            self._failure = error
            self._stop.set()

    def _engine_failed(self) -> None:
        self._failure = EngineError("the engine failed: every running request was ended; see the log above")
        self._stop.set()


def _widest_window(program: Program) -> int | None:
    """How many positions some layer looks back; None when one of them sees everything."""
    layers = [op for op in program.ops if isinstance(op, PagedAttention | LatentAttention)]
    windows = [op.window for op in layers if isinstance(op, PagedAttention) and op.window is not None]
    return max(windows) if layers and len(windows) == len(layers) else None


def _limits(checkpoint: Checkpoint, block_bytes: int, config: EngineConfig) -> Limits:
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
    )


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
