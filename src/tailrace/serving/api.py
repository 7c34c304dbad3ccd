"""An API process: sockets, wire formats, text. It reaches the engine through its channel."""

import asyncio
import faulthandler
import os
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import uvloop

from tailrace.app import build_service
from tailrace.config import ServeConfig
from tailrace.engine.board import Board, EngineState
from tailrace.engine.collector import settle_collector
from tailrace.engine.fill import ChannelFill
from tailrace.engine.remote import RemoteEngine
from tailrace.frontends.api_keys import ApiKeys
from tailrace.frontends.http import serve as http
from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.attribution import AttributionEndpoint
from tailrace.frontends.http.config import HttpConfig, Patience
from tailrace.frontends.http.console.console import Console
from tailrace.frontends.http.console.feed import LiveFeed
from tailrace.frontends.http.console.frames import FrameMaker
from tailrace.frontends.http.cors import Cors
from tailrace.frontends.http.resume.store import ResumeStore
from tailrace.frontends.http.resume.streams import ResumableStreams
from tailrace.frontends.key_file import read_clients
from tailrace.frontends.rate_gate import RateGate
from tailrace.frontends.shm.config import ShmConfig
from tailrace.frontends.shm.server import serve_shm
from tailrace.frontends.standing import Client
from tailrace.frontends.trace_context import Tracing
from tailrace.frontends.watched_file import WatchedFile, watching
from tailrace.loading import PlannedModel
from tailrace.service.bounds import TextBounds
from tailrace.service.late import LateService
from tailrace.service.service import TextService
from tailrace.service.warm import Warmer
from tailrace.serving.family import find_family
from tailrace.serving.served import served_on
from tailrace.serving.shared import Places, Shared
from tailrace.serving.supervisor import WAKE_SIGNAL
from tailrace.serving.traces import sending_spans
from tailrace.serving.warming import KeptPrompts, ListedPrompts, start_warming
from tailrace.telemetry.feed.builder import FrameBuilder, ServerFacts
from tailrace.telemetry.feed.process import ProcessView, decode_view
from tailrace.telemetry.pages import MetricsPage, Snapshot, collect
from tailrace.telemetry.profile import ALL, Profiler
from tailrace.telemetry.prometheus import Metrics
from tailrace.telemetry.roofline_position import RooflinePosition
from tailrace.version import __version__

__all__ = ["ApiProcess"]

_LOOK_S = 0.01
_BEAT_S = 0.25


class ApiProcess:
    """One of the processes that answer clients."""

    def __init__(
        self,
        config: ServeConfig,
        plan: PlannedModel,
        shared: Shared,
        places: Places,
        clients: Mapping[str, Client],
    ) -> None:
        self._config = config
        self._plan = plan
        self._shared = shared
        self._places = places
        self._api_keys = ApiKeys(clients)
        self._tracing = Tracing(None if config.otlp is None else config.otlp.sampler)

    def run(self, index: int, generation: int, metrics: Metrics, listed: ListedPrompts) -> None:
        """Answer until SIGTERM or SIGINT, and then what is under way."""
        faulthandler.enable()
        with sending_spans(self._config.otlp, metrics, self._plan.card(self._config.name).name):
            uvloop.run(self._run(index, generation, metrics, listed))

    async def _run(self, index: int, generation: int, metrics: Metrics, listed: ListedPrompts) -> None:
        config, page = self._config, self._shared.worker_pages[index]
        late = LateService(
            self._plan.card(config.name), config.engine.classes, is_open=lambda: self._shared.board.is_open
        )
        if before := page.read():
            metrics.go_on_from(before)
        metrics.link.watch(ChannelFill(self._shared.channels[index]).shares)
        view = self._shared.worker_views[index]
        asyncio.get_running_loop().add_reader(page.wakes, _publish, page, metrics.snapshot)
        asyncio.get_running_loop().add_reader(view.wakes, _publish, view, metrics.feed.snapshot)
        gate = RateGate(self._shared.rates, index)
        http_config = HttpConfig(
            version=__version__,
            admin_key=config.admin_key,
            api_keys=self._api_keys,
            gate=gate,
            patience=Patience(config.keep_alive_s, config.stall_s),
            cors=Cors(frozenset(config.cors_origins)),
            tracing=self._tracing,
        )
        store = ResumeStore(self._shared.streams, owner=index, num_owners=len(self._shared.channels))
        streams = ResumableStreams(late, store, metrics.http, http_config)
        server = _WholeServer(self._shared, index, metrics)
        feed = LiveFeed(self._frames(server, late).make)
        profiler = Profiler(partial(_profiled, os.getppid()), self._shared.profile_turn)
        console = Console(server, feed, metrics.http, http_config.patience) if config.has_console else None
        attribution = AttributionEndpoint(server, config.admin_key, partial(served_on, self._plan, late.model.name))
        app = create_app(
            late,
            metrics,
            http_config,
            server,
            streams,
            console=console,
            profiler=profiler,
            attribution=attribution,
        )
        stop, drain = asyncio.Event(), asyncio.Event()
        beating = asyncio.create_task(_beat(self._shared.board, index))
        opening = asyncio.create_task(self._open(index, generation, late, listed, stop, metrics=metrics))
        others = [asyncio.create_task(serving) for serving in self._other_front_ends(late, gate, metrics, drain)]
        for task in (beating, opening, *others):
            task.add_done_callback(partial(_stop_if_failed, stop))

        def begin_drain() -> None:
            late.drain(config.drain_s)
            feed.close()
            profiler.close()
            drain.set()

        if generation > 1:
            await asyncio.wait([opening])  # whoever connects meanwhile waits, or is answered by another process
        with metrics.gc_pauses.watching():
            async with watching(self._watched_keys()):
                await http.serve(app, self._places.listener, on_stop=begin_drain, stop=stop, grace_s=config.drain_s)
        await asyncio.gather(*others)
        if not opening.done():
            opening.cancel()  # told to stop before there was an engine
            return
        engine, warming = opening.result()
        if warming is not None:
            warming.cancel()
            await asyncio.wait([warming])
        engine.close()

    def _frames(self, server: "_WholeServer", service: LateService) -> FrameMaker:
        """What makes the console's frames."""
        facts = ServerFacts(
            model=service.model.name,
            version=__version__,
            budget_tokens=self._plan.limits.max_tokens,
            num_api_processes=self._config.num_workers,
            started_s=self._shared.started_s,
        )
        position = RooflinePosition(partial(served_on, self._plan, service.model.name))
        return FrameMaker(server, FrameBuilder(facts, lambda: service.classes), lambda: service.is_ready, position)

    def _other_front_ends(
        self, service: LateService, gate: RateGate, metrics: Metrics, drain: asyncio.Event
    ) -> Iterator[Coroutine[None, None, None]]:
        """Those beside HTTP that were asked for. Each serves until `drain`, and then what is under way."""
        config = self._config
        if self._places.grpc_address is not None:
            # It starts threads when it is imported: in this process, and in none that forks. It need not care
            # that py-spy is started from here, and would say so in the log, in words of its own.
            os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
            from tailrace.frontends.grpc.config import GrpcConfig  # noqa: PLC0415  (an extra, with threads: not before the fork)
            from tailrace.frontends.grpc.serve import serve_grpc  # noqa: PLC0415  (as above)

            grpc = GrpcConfig(
                __version__, config.admin_key, self._api_keys, gate, tracing=self._tracing, stall_s=config.stall_s
            )
            address = self._places.grpc_address
            yield serve_grpc(service, grpc, metrics.grpc, address, stop=drain, grace_s=config.drain_s)
        if (lobby := self._places.lobby) is not None:
            bounds = ShmConfig(stall_s=config.stall_s, tracing=self._tracing)
            yield serve_shm(lobby, service, metrics.shm, bounds, stop=drain, grace_s=config.drain_s)

    async def _open(
        self,
        index: int,
        generation: int,
        late: LateService,
        listed: ListedPrompts,
        stop: asyncio.Event,
        *,
        metrics: Metrics,
    ) -> tuple[RemoteEngine, asyncio.Task[None] | None]:
        """Have the text side ready: the first time with its engine, later it may be that there is none just now."""
        shared, plan, classes = self._shared, self._plan, self._config.engine.classes
        engine = RemoteEngine(
            shared.channels[index],
            shared.board,
            worker_generation=generation,
            classes=classes,
            max_model_tokens=plan.max_request_tokens,
            on_failure=stop.set,
            on_resumed=metrics.link.request_resumed,
            observe_ring=metrics.paths.observer("ring"),
            tell=metrics.events.tell,
            on_replaced=lambda: metrics.lives.engine_replaced(time.monotonic()),
        )
        tally = plan.tally(self._config.warm)
        keep = KeptPrompts(self._config.warm, late.model).keep if index == 0 else None
        warmer = Warmer(engine, tally, plan.warmer_config(classes), keep=keep) if index == 0 else None
        text = await asyncio.to_thread(
            build_service,
            plan.checkpoint,
            engine,
            late.model,
            warmer,
            lambda: engine.classes,
            bounds=TextBounds(max_answer_tokens=self._config.max_answer_tokens),
            chat_format=self._config.source.chat_format,
            observe_text=metrics.paths.observer("text"),
        )
        settle_collector()
        while generation == 1 and not engine.is_ready:
            await asyncio.sleep(_LOOK_S)
        warming = None
        if warmer is not None:
            warming = await start_warming(
                warmer, tally, text, board=shared.board, card=late.model, plan=plan, listed=listed
            )
        self._arrive(index, generation, late, text)
        return engine, warming

    def _arrive(self, index: int, generation: int, late: LateService, text: TextService) -> None:
        late.arrive(text)
        self._shared.board.worker_ready(index, generation)
        os.kill(os.getppid(), WAKE_SIGNAL)

    def _watched_keys(self) -> list[WatchedFile[Mapping[str, Client]]]:
        path, classes = self._config.api_keys, self._config.engine.classes
        if path is None:
            return []
        return [WatchedFile(path, partial(read_clients, classes=classes), self._api_keys.replace)]


@dataclass(frozen=True, slots=True)
class _WholeServer:
    """All processes, as one of the API processes sees them."""

    shared: Shared
    index: int
    metrics: Metrics

    @property
    def fails_for_s(self) -> float | None:
        board = self.shared.board
        return board.retry_at_s - time.monotonic() if board.state is EngineState.FAILED else None

    async def gather(self) -> Metrics:
        # What was seen, whoever takes this process's place goes on from.
        self.shared.worker_pages[self.index].publish(self.metrics.snapshot)
        pages = [self.shared.engine_page, *self._others(self.shared.worker_pages)]
        whole = self.metrics.with_others(await collect(pages))
        board = self.shared.board
        whole.server.show(
            is_engine_up=board.is_ready,
            num_engine_restarts=board.num_engine_restarts,
            num_api_restarts=board.num_worker_restarts,
        )
        return whole

    async def views(self) -> Sequence[ProcessView]:
        others = await collect([self.shared.engine_view, *self._others(self.shared.worker_views)])
        return [self.metrics.feed.view(), *map(decode_view, others)]

    def _others(self, pages: Sequence[MetricsPage]) -> list[MetricsPage]:
        return [page for place, page in enumerate(pages) if place != self.index]


def _profiled(supervisor: int) -> dict[str, int]:
    """Whom one may look into."""
    return {**find_family(supervisor), ALL: supervisor}


def _stop_if_failed(stop: asyncio.Event, task: asyncio.Task[object]) -> None:
    if not task.cancelled() and task.exception() is not None:
        stop.set()


async def _beat(board: Board, index: int) -> None:
    """Show that this event loop comes round."""
    while True:
        board.beat_worker(index, time.monotonic())
        await asyncio.sleep(_BEAT_S)


def _publish(page: MetricsPage, snapshot: Snapshot) -> None:
    os.eventfd_read(page.wakes)
    page.publish(snapshot)
