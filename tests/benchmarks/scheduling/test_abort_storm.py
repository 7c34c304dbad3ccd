"""The benchmark of an abort storm runs, on a model that is there for tests."""

from benchmarks.scheduling.abort_storm import Round, StormReport, run_storm, storm_config
from tailrace.app import load_model
from tailrace.weights.load import open_checkpoint


def test_a_storm_comes_to_an_end_and_leaves_nothing_behind() -> None:
    config = storm_config(300)
    model = load_model(open_checkpoint("tiny-deepseek"), config)
    report = run_storm(model, config, num_requests=300, num_rounds=2, quiet_s=0.05)
    assert len(report.rounds) == 2
    assert all(each.storm_s > 0 and each.memory_mib > 0 for each in report.rounds)
    assert report.num_blocks_left == 0
    model.executable.close()


def test_the_figure_is_the_median_of_the_rounds() -> None:
    rounds = [Round(100.0, storm_rate, 1.0, 1.0) for storm_rate in (95.0, 80.0, 97.0)]
    assert StormReport(rounds, 0).ratio == 0.95
