"""Serves a model: makes what the processes share, forks them, and stays to supervise them."""

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from tailrace.config import ModelSource, ServeConfig
from tailrace.engine.collector import freeze_loaded
from tailrace.errors import SetupError
from tailrace.frontends.grpc.address import reserved
from tailrace.frontends.http.listener import bind
from tailrace.frontends.key_file import read_clients
from tailrace.frontends.shm.lobby import claimed
from tailrace.frontends.standing import ANYBODY, Client
from tailrace.loading import PackedModel, PlannedModel, plan_model
from tailrace.ops.api import Progress
from tailrace.serving.children import Child, fork
from tailrace.serving.engine import kv_events, run_engine
from tailrace.serving.family import let_family_look
from tailrace.serving.shared import Places, Shared
from tailrace.serving.supervisor import Supervisor
from tailrace.serving.warming import ListedPrompts
from tailrace.telemetry.prometheus import Metrics
from tailrace.telemetry.pyroscope import push_profiles
from tailrace.version import __version__
from tailrace.weights.load import open_checkpoint
from tailrace.weights.packed_cache import PackedCache

if TYPE_CHECKING:
    from tailrace.serving.api import ApiProcess

__all__ = ["serve"]

_KEEPING_NICENESS = 10  # requests are being answered meanwhile


def serve(
    config: ServeConfig,
    on_planned: Callable[[PlannedModel], None],
    on_ready: Callable[[Places, float], None],
    on_loaded: Callable[[PlannedModel], None],
    progress: Progress | None = None,
) -> None:
    """Serve a model until SIGTERM or SIGINT; then let running streams finish.

    `on_planned` is told the bounds before the weights are loaded, `on_ready` where clients find the server, and how
    many times as long as configured the targets of classes are, once requests are answered. `on_loaded` is called once
    all weights are read, by the process that has read them.
    Raises SetupError or ModelError when it cannot start.
    """
    listed = ListedPrompts.read(config.warm)
    clients = _clients(config)
    with (
        bind(config.host, config.port),
        reserved(config.host, config.grpc_port),
        claimed(config.shm),
        kv_events(config),
    ):
        pass  # a taken port is said before a download, as is one for two things
    checkpoint = open_checkpoint(config.source.model, quantize=config.source.quantize)
    if config.source.chat_format == "template" and checkpoint.chat_template is None:
        raise SetupError(f"the model has no chat template: --chat-format {config.source.chat_format} cannot be")
    plan = plan_model(checkpoint, config.engine)
    on_planned(plan)
    with (
        bind(config.host, config.port) as listener,
        reserved(config.host, config.grpc_port) as grpc_address,
        claimed(config.shm) as lobby,
    ):
        # From here on clients get answers: 503 until it is loaded.
        _Server(config, plan, Places(listener, grpc_address, lobby), clients, listed).run(on_ready, on_loaded, progress)


def _clients(config: ServeConfig) -> Mapping[str, Client]:
    """Who may have answers, by key; nobody in particular when no keys are set. Raises SetupError."""
    if config.api_keys is not None:
        return read_clients(config.api_keys, config.engine.classes)
    return {} if config.api_key is None else {config.api_key: ANYBODY}


def _cache(source: ModelSource) -> PackedCache | None:
    """Where packed weights are kept, if they are."""
    return PackedCache.of_user(source.cache_bytes) if source.cache_bytes else None


def _load(packed: PackedModel, on_loaded: Callable[[PlannedModel], None], progress: Progress | None) -> None:
    packed.fill(progress)
    on_loaded(packed.plan)


def _load_and_keep(packed: PackedModel, on_loaded: Callable[[PlannedModel], None], progress: Progress | None) -> None:
    """Read the weights, which the engine waits for meanwhile; then keep them for the next start."""
    _load(packed, on_loaded, progress)
    os.nice(_KEEPING_NICENESS)
    packed.keep()


def _load_front_ends() -> "type[ApiProcess]":
    """Takes a tenth of a second. The first worker does it for itself, while the weights are read here; several, and
    those that come later, share what was loaded before they were forked."""
    from tailrace.serving.api import ApiProcess  # noqa: PLC0415  (see above)

    return ApiProcess


class _Server:
    """How the processes of one server are started."""

    def __init__(
        self,
        config: ServeConfig,
        plan: PlannedModel,
        places: Places,
        clients: Mapping[str, Client],
        listed: ListedPrompts,
    ) -> None:
        self._config = config
        self._plan = plan
        self._places = places
        self._listed = listed
        self._shared = Shared.make(
            num_workers=config.num_workers,
            max_running=plan.limits.max_sequences,
            max_model_tokens=plan.max_request_tokens,
        )
        self._clients = clients
        self._packed: PackedModel | None = None

    def run(
        self,
        on_ready: Callable[[Places, float], None],
        on_loaded: Callable[[PlannedModel], None],
        progress: Progress | None,
    ) -> None:
        board = self._shared.board
        supervisor = Supervisor(
            board,
            self._shared.channels,
            start_engine=self._start_engine,
            start_worker=self._start_worker,
            on_ready=lambda: on_ready(self._places, board.target_scale),
            max_restarts=self._config.max_restarts,
            patience_s=self._config.patience_s,
            drain_s=self._config.drain_s,
        )
        let_family_look(os.getpid())
        freeze_loaded()  # those that are forked share it until they touch it
        with closing(supervisor):
            supervisor.start_workers()
            packed = self._packed = self._plan.lay_out(_cache(self._config.source), is_shared=True)
            if packed.is_large and not packed.is_whole:
                load = partial(_load_and_keep, packed, on_loaded, progress)
                supervisor.start_loader(partial(fork, "tailrace: loader", load), lambda: packed.is_whole)
            else:
                _load(packed, on_loaded, progress)
            supervisor.run()

    def _start_engine(self, generation: int) -> Child:
        assert self._packed is not None, "the engine comes after the weights"
        metrics = self._metrics("engine")
        run = partial(run_engine, self._config, self._packed, self._shared, metrics, generation)
        return self._fork("engine", run)

    def _start_worker(self, index: int, generation: int) -> Child:
        name = f"api {index}"
        listed = self._listed if generation == 1 else ListedPrompts((), ())
        if self._config.num_workers > 1 or generation > 1:
            _load_front_ends()
        return self._fork(name, partial(self._answer, index, generation, self._metrics(name), listed))

    def _fork(self, name: str, run: Callable[[], None]) -> Child:
        return fork(f"tailrace: {name}", partial(self._run, name, run))

    def _run(self, name: str, run: Callable[[], None]) -> None:
        """What a process does, told to Pyroscope where that is asked for."""
        if (url := self._config.pyroscope) is not None:
            push_profiles(url, model=self._plan.card(self._config.name).name, process=name)
        run()

    def _answer(self, index: int, generation: int, metrics: Metrics, listed: ListedPrompts) -> None:
        """What an API process does."""
        api = _load_front_ends()(self._config, self._plan, self._shared, self._places, self._clients)
        api.run(index, generation, metrics, listed)

    def _metrics(self, process: str) -> Metrics:
        name = self._plan.card(self._config.name).name
        return Metrics(model_name=name, version=__version__, classes=self._config.engine.classes, process=process)
