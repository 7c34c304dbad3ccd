from benchmarks.serving.server import our_command, started_server
from benchmarks.telemetry.console import ConsoleCost, measure_console


def test_it_is_the_difference_of_a_server_that_is_watched_and_one_that_is_not() -> None:
    assert ConsoleCost(closed=0.25, open=0.375).cores == 0.125


def test_a_real_server_is_watched() -> None:
    with started_server(our_command()) as url:
        cost = measure_console(url, num_rounds=1, watch_s=0.5)
    assert min(cost.closed, cost.open) > 0.0
