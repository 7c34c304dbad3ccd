"""A server's metrics without the server: as many series as one has that has been in use, in as many processes."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median

from tailrace.classes import STANDARD, ServiceClasses
from tailrace.records import BeginningRecord, LevelReport, RequestRecord
from tailrace.telemetry.prometheus import Metrics
from tailrace.types import FinishReason, Level

__all__ = ["Cost", "Server", "measure"]

_TRACE_ID = "0af7651916cd43dd8448eb211c80319c"


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a scrape in the process that answers it, and of a snapshot in each of the others: processor time."""

    num_processes: int
    format: str
    num_lines: int
    num_bytes: int
    snapshot_s: float  # median
    scrape_s: float  # median
    worst_s: float


class Server:
    """The first of the processes answers."""

    def __init__(self, num_processes: int, num_classes: int, num_routes: int) -> None:
        classes = _classes(num_classes)
        self._processes = [
            Metrics(model_name="a-model-of-some-size", version="1.2.3", classes=classes, process=f"api {index}")
            for index in range(num_processes)
        ]
        for metrics in self._processes:
            _use(metrics, [each.name for each in classes], num_routes)

    @property
    def num_processes(self) -> int:
        return len(self._processes)

    def snapshots(self) -> list[bytes]:
        """What the others say."""
        return [metrics.snapshot() for metrics in self._processes[1:]]

    def scrape(self, snapshots: list[bytes], accept: str) -> bytes:
        """As the process does that answers."""
        return self._processes[0].with_others(snapshots).render(accept)[0]


def measure(server: Server, accept: str, num_rounds: int) -> Cost:
    """Scrape it again and again."""
    snapshots = server.snapshots()
    exposition = server.scrape(snapshots, accept)
    scrapes_s = [_cpu_s(lambda: server.scrape(snapshots, accept)) for _ in range(num_rounds)]
    snapshots_s = [_cpu_s(server.snapshots) / max(server.num_processes - 1, 1) for _ in range(num_rounds)]
    return Cost(
        server.num_processes,
        accept,
        exposition.count(b"\n"),
        len(exposition),
        median(snapshots_s),
        median(scrapes_s),
        max(scrapes_s),
    )


def _cpu_s(work: Callable[[], object]) -> float:
    started_s = time.thread_time()
    work()
    return time.thread_time() - started_s


def _classes(count: int) -> ServiceClasses:
    each = tuple(replace(STANDARD.default, name=f"class-{number}", min_share=0.05) for number in range(count))
    return ServiceClasses(each, each[0].name)


def _use(metrics: Metrics, names: list[str], num_routes: int) -> None:
    """As if all of it had been asked for something."""
    for route in range(num_routes):
        for status in (200, 400, 429):
            metrics.http.request_started()
            metrics.http.request_ended(f"/route/{route}", status)
    for level in (Level.HOST, Level.DISK, Level.REDIS):
        report = LevelReport(level, True, *range(11))
        metrics.levels.watch(lambda report=report: [report])  # type: ignore[misc]  # mypy infers no default's type
        metrics.levels.refresh()
    metrics.levels.watch(tuple)
    for name in names:
        for number in range(12):
            metrics.http.answers.gaps_of(name).observe_traced(2.0**-number, _TRACE_ID, 1e9)
            metrics.http.answers.first_text_of(name).observe(2.0**-number)
        _serve(metrics, name)


def _serve(metrics: Metrics, class_name: str) -> None:
    beginning = BeginningRecord("r", class_name, 0.0, 0.5, 1.0, 100, None, 0.9)
    metrics.record(beginning)
    metrics.record(
        RequestRecord(
            "r", 0.0, 0.5, 1.0, 9.0, 100, None, 50, 0, FinishReason.STOP, class_name=class_name, max_tokens=90
        )
    )
