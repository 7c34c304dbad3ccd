"""How far a request is with the levels below, and what of its prompt came from which."""

from tailrace.scheduler.live import BelowState
from tailrace.types import Level, MissReason, PrefixReport


def engine_report(num_tokens: int, reason: MissReason | None = MissReason.NEVER_SEEN) -> PrefixReport:
    return PrefixReport(((Level.ENGINE, num_tokens),) if num_tokens else (), reason)


def test_nothing_is_known_before_the_first_answer_and_in_front_of_what_was_asked() -> None:
    below = BelowState()
    assert below.levels_behind(0) is None
    below.first, below.levels = 3, (Level.HOST, Level.HOST, Level.REDIS)
    assert below.levels_behind(2) is None
    assert below.levels_behind(4) == (Level.HOST, Level.REDIS)
    assert below.levels_behind(9) == ()


def test_who_was_through_asks_again_only_when_the_engine_has_less() -> None:
    below = BelowState()
    assert not below.is_content_with(100)
    below.settled_end = 5
    assert below.is_content_with(5)
    assert not below.is_content_with(4)


def test_tokens_are_counted_to_the_level_they_were_fetched_from() -> None:
    below = BelowState(fetched=[(Level.HOST, 1, 3), (Level.REDIS, 3, 4)])
    assert dict(below.report(engine_report(64), 16).num_tokens) == {Level.ENGINE: 16, Level.HOST: 32, Level.REDIS: 16}


def test_what_was_fetched_and_lost_again_is_not_counted() -> None:
    below = BelowState(fetched=[(Level.HOST, 1, 3), (Level.REDIS, 3, 4)])
    assert dict(below.report(engine_report(40), 16).num_tokens) == {Level.ENGINE: 16, Level.HOST: 24}
    assert below.report(engine_report(0), 16).num_tokens == ()


def test_why_a_level_gave_no_more_counts_more_than_what_the_engine_knows() -> None:
    below = BelowState(reason=MissReason.LEVEL_DOWN)
    assert below.report(engine_report(16), 16).reason is MissReason.LEVEL_DOWN
    assert below.report(engine_report(16, None), 16).reason is None
