from tailrace.frontends.http.server_timing import server_timing
from tailrace.types import Beginning
from tests.support.following import make_life


def test_the_parts_of_an_answer_are_told_in_milliseconds() -> None:
    life = make_life(accepted_s=1.0)
    life.beginning = Beginning(taken_s=1.1, started_s=1.25, computed_s=2.0)
    assert server_timing(life, 2.5) == (
        b"server-timing",
        b"queue;dur=250.0, prefill;dur=750.0, decode;dur=500.0, total;dur=1500.0",
    )


def test_of_an_answer_that_the_engine_has_not_computed_only_the_whole_is_told() -> None:
    assert server_timing(make_life(accepted_s=1.0), 1.0625) == (b"server-timing", b"total;dur=62.5")
