from pathlib import Path

from benchmarks.kvcache.levels import EVICTING, OPERATIONS, measure


def test_each_level_is_measured_in_all_it_does(tmp_path: Path) -> None:
    figures = measure(["host", "disk", "redis"], 4096, 40 * 4096, 1, tmp_path)
    assert [(figure.level, figure.operation) for figure in figures] == [
        (level, operation)
        for level in ("host", "disk", "redis")
        for operation in OPERATIONS
        if (level, operation) != ("redis", EVICTING)
    ]
    assert all(figure.num_blocks == 40 and figure.median_s > 0 for figure in figures)
    assert {figure.operation for figure in figures if figure.gb_per_s} == {"keep", "give", EVICTING}
    assert list(tmp_path.iterdir()) == []
