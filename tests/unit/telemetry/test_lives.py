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


def test_more_open_requests_than_the_bound_are_known_from_their_end_on() -> None:
    log = LifeLog(max_open=1)
    first, second = _life("a"), _life("b")
    log.begin(first)
    log.begin(second)
    assert log.lives() == [first]
    log.end(second)
    assert log.lives() == [first, second]


def test_each_life_that_ends_is_told() -> None:
    log, ended = LifeLog(), list[RequestLife]()
    log.on_end = ended.append
    log.begin(_life("a"))
    log.end(first := _life("b"))
    assert ended == [first]


def test_who_was_submitted_when_an_engine_died_is_told_of_the_next() -> None:
    log, waiting, reading, done = LifeLog(), _life("a"), _life("b"), _life("c")
    for each in (waiting, reading, done):
        log.begin(each)
    waiting.submitted_s = done.submitted_s = 1.0
    log.end(done)
    log.engine_replaced(5.0)
    assert (waiting.resumed_s, reading.resumed_s, done.resumed_s) == ([5.0], [], [])
