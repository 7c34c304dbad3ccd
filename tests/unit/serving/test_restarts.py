from tailrace.serving.restarts import Restarts


def test_who_dies_seldom_is_started_at_once() -> None:
    restarts = Restarts(2, window_s=60.0)
    assert [restarts.died(now_s) for now_s in (0.0, 31.0, 62.0, 93.0)] == [0.0, 31.0, 62.0, 93.0]


def test_who_dies_too_often_waits_until_the_first_time_is_a_minute_ago() -> None:
    restarts = Restarts(2, window_s=60.0)
    assert restarts.died(10.0) == 10.0
    assert restarts.died(11.0) == 11.0
    assert restarts.died(12.0) == 70.0
    assert restarts.died(71.0) == 71.0
    assert restarts.died(71.5) == 72.0


def test_none_may_mean_never_at_once() -> None:
    assert Restarts(0, window_s=60.0).died(5.0) == 65.0
