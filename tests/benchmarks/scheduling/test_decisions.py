"""The benchmark of deciding who is next runs, on queues that take no time."""

from benchmarks.scheduling.decisions import Crowd, measure, take_turns


def test_as_many_wait_after_a_turn_as_before() -> None:
    crowd = Crowd(50)
    times = take_turns([crowd], 20)
    assert len(crowd) == 50
    assert len(times[0]) == 20
    assert min(min(each.push, each.first, each.admitted, each.remove) for each in times[0]) > 0
    assert crowd.storm(20).num_aborted == 20
    assert len(crowd) == 30


def test_every_size_gets_its_row() -> None:
    rows = measure((10, 40), num_turns=10)
    assert list(rows) == [10, 40]
    assert rows[10]["first_ratio"] == 1.0
    assert all(figure >= 0 for row in rows.values() for figure in row.values())
