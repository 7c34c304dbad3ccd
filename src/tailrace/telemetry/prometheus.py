"""Shows the series to Prometheus, in its text format or OpenMetrics. Costs nothing until somebody scrapes."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from tailrace.classes import STANDARD, ServiceClasses
from tailrace.records import EventRecord, LoadRecord, Record, RuleReport, StepProfile, StepRecord
from tailrace.telemetry.answers import AnswerMetrics
from tailrace.telemetry.catalog import Kind, Metric
from tailrace.telemetry.catalogs import process as process_catalog
from tailrace.telemetry.derived import STANDARD_SERIES, VLLM_SERIES, derive
from tailrace.telemetry.engine import EngineMetrics
from tailrace.telemetry.engine_time import EngineTime
from tailrace.telemetry.events import EventLog
from tailrace.telemetry.experts import ExpertMetrics
from tailrace.telemetry.exposition import Shown, exposition
from tailrace.telemetry.feed.process import ProcessFeed
from tailrace.telemetry.gc_pauses import GcPauses
from tailrace.telemetry.grpc import GrpcMetrics
from tailrace.telemetry.http import HttpMetrics
from tailrace.telemetry.levels import LevelMetrics
from tailrace.telemetry.life_metrics import LifeMetrics
from tailrace.telemetry.lives import LifeLog
from tailrace.telemetry.ops import OpMetrics
from tailrace.telemetry.pool import PoolMetrics
from tailrace.telemetry.process import ProcessMetrics
from tailrace.telemetry.residency import ResidencyMetrics
from tailrace.telemetry.rules import RuleReports
from tailrace.telemetry.series import (
    Exemplars,
    LabelledNumber,
    Samples,
    Series,
    add_exemplars,
    add_samples,
    changed_samples_of,
    exemplars_of,
    over_classes,
    samples_of,
)
from tailrace.telemetry.server import LinkMetrics, ServerMetrics
from tailrace.telemetry.shm import ShmMetrics
from tailrace.telemetry.span_counts import SpanCounts

__all__ = ["Metrics"]


class Metrics:
    """All metrics of one server: `record` is the engine's sink, `http`, `grpc` and `shm` the front ends' counters,
    and `answers` what all of them count.

    `experts`, `residency`, `engine_time`, `pool` and `levels` ask for some of theirs when somebody
    looks; `gc_pauses` counts while it watches.
    """

    def __init__(
        self, *, model_name: str, version: str, classes: ServiceClasses = STANDARD, process: str = "tailrace"
    ) -> None:
        self._names = model_name, version, classes
        self.engine = EngineMetrics(classes)
        self.lives = LifeLog()
        self.paths = LifeMetrics()
        self.answers = AnswerMetrics(classes, self.lives, self.paths)
        self.http = HttpMetrics(self.answers.through("http"))
        self.grpc = GrpcMetrics(self.answers.through("grpc"))
        self.shm = ShmMetrics(self.answers.through("shm"))
        self.experts = ExpertMetrics()
        self.residency = ResidencyMetrics()
        self.ops = OpMetrics()
        self.pool = PoolMetrics()
        self.engine_time = EngineTime()
        self.levels = LevelMetrics()
        self.gc_pauses = GcPauses()
        self.feed = ProcessFeed(self.lives)
        self.spans = SpanCounts()
        self.events = EventLog()
        self.rules = RuleReports()
        self.process = ProcessMetrics(process)
        self.link = LinkMetrics(process)
        self.server = ServerMetrics()
        self._build = LabelledNumber(process_catalog.BUILD_INFO)
        self._build.set(1, version, model_name)
        self._asked: tuple[_Asked, ...] = (
            self.experts,
            self.residency,
            self.engine_time,
            self.pool,
            self.levels,
            self.rules,
            self.process,
            self.link,
        )
        self._series = tuple(series for part in self._parts for series in part.series)

    def record(self, record: Record) -> None:
        """The engine's sink: counts one record, in the calling thread. Events may come from any."""
        if isinstance(record, EventRecord):
            self.events.record(record)
            return
        if isinstance(record, StepProfile):
            self.ops.record(record)
            return
        self.engine.record(record)
        self.feed.record(record)
        if isinstance(record, StepRecord | LoadRecord):
            self.pool.record(record.pool)

    def render(self, accept: str) -> tuple[bytes, str]:
        """The exposition and its content type, in the format that the Accept header asks for."""
        self._refresh()
        return exposition(self._shown(), accept)

    def samples(self) -> list[tuple[Metric, Samples]]:
        """The values of all series, as they are now."""
        self._refresh()
        return [(series.metric, samples_of(series)) for series in self._series]

    def snapshot(self) -> bytes:
        """All that is counted here, for `with_others` in another process. From any thread."""
        return _encode(self._taken())

    def _taken(self) -> "_Snapshot":
        self._refresh()
        samples = [changed_samples_of(series) for series in self._series]
        exemplars = {place: found for place, series in enumerate(self._series) if (found := exemplars_of(series))}
        experts, events, rules = dict(self.experts.counts()), self.events.latest(), self.rules.latest()
        return _Snapshot(samples, exemplars, experts, events, rules)

    def with_others(self, snapshots: Iterable[bytes]) -> "Metrics":
        """What is counted here and in other processes together, as of now."""
        model_name, version, classes = self._names
        whole = Metrics(model_name=model_name, version=version, classes=classes)
        whole._asked = ()
        for snapshot in (self._taken(), *map(_decode, snapshots)):
            whole._add(snapshot)
        return whole

    def go_on_from(self, snapshot: bytes) -> None:
        """Count on from what a process before this one counted, as it was last seen, so that nothing goes back."""
        decoded = _decode(snapshot)
        for series, samples in zip(self._series, decoded.series, strict=True):
            if series is self.process.cpu:
                self.process.go_on_from(samples)
            elif series.metric.kind is not Kind.GAUGE:
                add_samples(series, samples)
        self.events.remember(decoded.events)

    def _add(self, snapshot: "_Snapshot") -> None:
        for series, samples in zip(self._series, snapshot.series, strict=True):
            add_samples(series, samples)
        for place, exemplars in snapshot.exemplars.items():
            add_exemplars(self._series[place], exemplars)
        self.events.remember(snapshot.events)
        if snapshot.rules:
            self.rules.watch(lambda: snapshot.rules)
        if snapshot.experts:
            self.experts.watch(lambda: snapshot.experts)

    @property
    def _parts(self) -> tuple["_Part", ...]:
        """In the order of the exposition."""
        return (
            self.engine,
            self.ops,
            self.engine_time,
            self.pool,
            self.levels,
            self.experts,
            self.residency,
            self.answers,
            self.paths,
            self.http,
            self.grpc,
            self.shm,
            self.spans,
            self.events,
            self.rules,
            self.gc_pauses,
            self.process,
            self.link,
            self.server,
        )

    def _shown(self) -> Iterator[Shown]:
        """All series under our names, and under those that others read."""
        model_name, _, _ = self._names
        labels = (("model_name", model_name), ("engine", "0"))
        for series in (*self._series, self._build):
            yield Shown(series.metric.name, series)
            for alias in series.metric.aliases:
                yield Shown(alias, over_classes(series), labels)
        by_name = {series.metric.name: series for series in self._series}
        for each in VLLM_SERIES:
            yield Shown(each.metric.name, derive(each, by_name), labels)
        for each in STANDARD_SERIES:
            yield Shown(each.metric.name, derive(each, by_name))

    def _refresh(self) -> None:
        for asked in self._asked:
            asked.refresh()


class _Part(Protocol):
    """What counts some of it."""

    @property
    def series(self) -> Sequence[Series]: ...


class _Asked(Protocol):
    """What counts some things only when somebody looks."""

    def refresh(self) -> None: ...


class _Snapshot(msgspec.Struct, array_like=True):
    """The samples of each series, in their order, and what is no series."""

    series: list[Samples]
    exemplars: dict[int, Exemplars]  # by place of the series
    experts: dict[int, Sequence[int]]
    events: list[EventRecord]
    rules: list[RuleReport]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Snapshot).decode
