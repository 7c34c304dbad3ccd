"""The engine process: the step loop and nothing else."""

import faulthandler
import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

from tailrace.app import build_engine, make_intake, open_store
from tailrace.config import ServeConfig
from tailrace.engine.board import Board
from tailrace.engine.bridge import EngineBridge
from tailrace.engine.collector import settle_collector
from tailrace.engine.watch import BoardWatch
from tailrace.errors import SetupError
from tailrace.loading import LoadedModel, PackedModel
from tailrace.records import Record, RecordSink, StepRecord
from tailrace.scheduler.budget import scale_of_targets
from tailrace.serving.children import CRASHED
from tailrace.serving.shared import Shared
from tailrace.telemetry.feed.process import decode_view
from tailrace.telemetry.kv_batches import BatchEncoder
from tailrace.telemetry.pages import publish_from_thread
from tailrace.telemetry.prometheus import Metrics

__all__ = ["kv_events", "run_engine"]


def run_engine(config: ServeConfig, packed: PackedModel, shared: Shared, metrics: Metrics, generation: int) -> None:
    """Run until SIGTERM. Raises SetupError when it cannot start, and whatever ends the step loop."""
    faulthandler.enable()
    if before := shared.engine_page.read():
        metrics.go_on_from(before)
    if seen := shared.engine_view.read():
        metrics.feed.go_on_from(decode_view(seen))
    with kv_events(config) as tell_blocks, metrics.gc_pauses.watching():
        model = packed.start()
        _run(config, model, shared, _Sink(shared.board, metrics, tell_blocks), generation)


def _run(config: ServeConfig, model: LoadedModel, shared: Shared, sink: "_Sink", generation: int) -> None:
    metrics, board = sink.metrics, shared.board
    metrics.experts.watch(model.expert_tokens)
    metrics.residency.watch(model.expert_residency)
    metrics.pool.watch(lambda: model.executable.kv_resident_bytes)
    step_times = model.calibrate()
    classes = config.engine.classes
    most_rows = min(model.limits.max_sequences, model.limits.max_tokens)
    scale = scale_of_targets(step_times, classes.tightest_itl_s, most_rows)
    if generation > 1:
        scale = min(scale, board.target_scale)  # measured while all that the last one left behind comes back
    board.target_scale = scale
    limits = model.limits
    metrics.engine.begin(
        block_tokens=limits.block_tokens, num_blocks=limits.num_blocks, budget_tokens=limits.max_tokens
    )
    metrics.engine.control.begin(scale, model.limits.max_sequences)
    engine_config = replace(config.engine, classes=classes.scaled(scale))
    intake = make_intake(model, engine_config)
    store = open_store(model, model.open_levels(config.levels, metrics.events.tell), intake, metrics.levels.watch)
    bridge = EngineBridge(shared.channels, board, intake, generation, on_failure=_crash)
    watch = BoardWatch(board, bridge.numbers, config.patience_s)
    model.watch_experts(lambda: watch.goes_on(time.monotonic()))
    engine = build_engine(
        model,
        engine_config,
        intake,
        bridge.publish,
        bridge.reply,
        emit=sink.record,
        watch=watch,
        tells_blocks=sink.tells_blocks,
        store=store,
        step_times=step_times,
        target_scale=scale,
        rules=config.settled_rules,
    )
    metrics.events.watch_rules(rule.name for rule in config.settled_rules)
    metrics.rules.watch(engine.governor.reports)

    metrics.engine_time.watch(engine.wall_time.seconds)

    def snapshot() -> bytes:
        with engine.telling:  # whoever has an answer finds it counted
            return metrics.snapshot()

    publish_from_thread(shared.engine_page, snapshot)
    publish_from_thread(shared.engine_view, metrics.feed.snapshot)
    signal.signal(signal.SIGTERM, lambda *_: intake.close())
    settle_collector()
    bridge.start()
    engine.run()
    bridge.close()


def _crash() -> None:
    """End at once, as by any fault of our own: the next engine goes on with all requests."""
    os._exit(CRASHED)


class _Sink:
    """Takes the engine's records to where they are counted, told and looked at."""

    def __init__(self, board: Board, metrics: Metrics, tell_blocks: RecordSink | None) -> None:
        self._board = board
        self._tell_blocks = tell_blocks
        self.metrics = metrics

    @property
    def tells_blocks(self) -> bool:
        return self._tell_blocks is not None

    def record(self, record: Record) -> None:
        self.metrics.record(record)
        if isinstance(record, StepRecord):
            self._board.target_scale = record.target_scale
        if self._tell_blocks is not None:
            self._tell_blocks(record)


@contextmanager
def kv_events(config: ServeConfig) -> Iterator[RecordSink | None]:
    """A sink that publishes what becomes of blocks, if that was asked for. Raises SetupError."""
    events = config.kv_events
    if events is None:
        yield None
        return
    try:
        from tailrace.telemetry.kv_events import KvEventPublisher  # noqa: PLC0415  (an extra)
    except ImportError:
        raise SetupError("--kv-events needs pyzmq: pip install 'tailrace[events]'") from None
    encoder = BatchEncoder(config.engine.block_tokens)
    with closing(KvEventPublisher(events.endpoint, events.topic, encoder)) as publisher:
        yield publisher.record
