"""The latest requests: all that are open up to a bound, and the last that have ended."""

from tailrace.telemetry.lives import LifeLog, RequestLife


def _life(request_id: str) -> RequestLife:
    return RequestLife(request_id=request_id, endpoint="chat", class_name="gold", accepted_s=1.0)


def test_open_requests_come_before_ended_ones_and_the_newest_first() -> None:
    log = LifeLog()
    lives = [_life(name) for name in "abcd"]
    for life in lives:
        log.begin(life)
    log.end(lives[0])
    log.end(lives[2])
    assert [life.request_id for life in log.lives()] == ["d", "b", "c", "a"]


def test_of_ended_requests_the_oldest_go_first() -> None:
    log = LifeLog(max_ended=2)
    for life in map(_life, "abc"):
        log.begin(life)
        log.end(life)
    assert [life.request_id for life in log.lives()] == ["c", "b"]
    assert log.find("a") is None


def test_more_open_requests_than_the_bound_are_known_from_their_end_on() -> None:
    log = LifeLog(max_open=1)
    first, second = _life("a"), _life("b")
    log.begin(first)
    log.begin(second)
    assert log.find("b") is None
    log.end(second)
    assert log.find("b") is second
