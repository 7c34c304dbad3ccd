"""What levels report is shown, whenever somebody looks."""

from tailrace.records import LevelReport
from tailrace.telemetry.levels import LevelMetrics
from tailrace.types import Level

REPORT = LevelReport(
    level=Level.DISK,
    is_working=True,
    num_blocks=1,
    num_bytes=2,
    max_bytes=3,
    num_evicted_blocks=4,
    num_corrupt_blocks=5,
    num_fetched_blocks=6,
    fetch_s=7.5,
    num_saved_blocks=8,
    num_dropped_blocks=9,
    num_failures=10,
    num_forgets_pending=11,
)


def shown(metrics: LevelMetrics) -> dict[str, dict[tuple[str, ...], float]]:
    metrics.refresh()
    return {series.metric.name: dict(series.values) for series in metrics.series}


def test_an_engine_without_levels_shows_none() -> None:
    assert not any(shown(LevelMetrics()).values())


def test_every_figure_of_a_report_is_shown_under_its_level() -> None:
    metrics = LevelMetrics()
    metrics.watch(lambda: (REPORT,))
    assert shown(metrics) == {
        f"tailrace_level_{name}": {("disk",): value}
        for name, value in [
            ("up", 1),
            ("blocks", 1),
            ("bytes", 2),
            ("max_bytes", 3),
            ("evicted_blocks", 4),
            ("corrupt_blocks", 5),
            ("fetched_blocks", 6),
            ("fetch_seconds", 7.5),
            ("saved_blocks", 8),
            ("dropped_blocks", 9),
            ("failures", 10),
            ("forgets_pending", 11),
        ]
    }
