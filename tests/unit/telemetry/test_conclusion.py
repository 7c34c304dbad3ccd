"""What an attribution comes to, in words."""

from msgspec.structs import replace

from tailrace.telemetry.attribution import Attribution, Roof, attribute
from tailrace.telemetry.conclusion import conclude
from tests.support.attributed import at_first, ten_seconds_later


def found() -> Attribution:
    return attribute(at_first(), ten_seconds_later())


def at(memory_share: float | None, arithmetic_share: float | None = 0.1) -> Roof:
    return Roof(1e9, 1e9, memory_share, arithmetic_share)


def test_what_is_worth_doing_something_about_comes_first() -> None:
    assert conclude(found()) == [
        "20% of the time the engine had nothing to do.",
        "Steps compute at 65% of the memory ceiling; most is lost in down, at 80% of its own.",
        "67% of the time to the first token is queueing.",
    ]


def test_at_the_limit_the_machine_is_the_limit() -> None:
    sentences = conclude(replace(found(), whole=at(0.82)))
    assert "Steps compute at 82% of the memory ceiling: the machine is the limit." in sentences
    assert conclude(replace(found(), whole=at(0.1, 0.9)))[1].startswith("Steps compute at 90% of the arithmetic peak")


def test_far_from_it_the_op_that_loses_most_is_named() -> None:
    assert conclude(replace(found(), whole=at(0.2)))[1] == (
        "Steps compute at no more than 20% of the memory ceiling; most is lost in down, at 80% of its own."
    )


def test_an_op_that_moves_nothing_has_no_ceiling() -> None:
    (down, attention, between) = found().ops
    ops = (replace(down, share=0.4), attention, replace(between, share=0.4))
    assert conclude(replace(found(), ops=ops))[1].endswith("in between, which moves and multiplies nothing.")


def test_without_ceilings_nothing_is_said_of_them() -> None:
    assert conclude(replace(found(), whole=at(None, None)))[1].startswith("67% of the time to the first token")


def test_an_engine_that_others_keep_from_running_is_said() -> None:
    starved = replace(found(), processes={"engine": 0.31, "api 0": 0.1})
    assert conclude(starved)[1] == (
        "The engine was busy for 80% of the time and got 0.31 cores: others use this machine, or it waits for weights."
    )
    assert conclude(replace(found(), processes={}))[1].startswith("Steps compute")


def test_time_lost_between_steps_is_said() -> None:
    engine = {"idle": 0.0, "compute": 6.0, "plan": 3.0, "publish": 1.0}
    assert conclude(replace(found(), engine=engine))[0] == (
        "40% of the time that it was busy it did not compute; most of that was plan."
    )


def test_who_was_idle_is_told_nothing_of_steps() -> None:
    engine = {"idle": 9.5, "compute": 0.5}
    assert conclude(replace(found(), engine=engine, first_token={})) == [
        "95% of the time the engine had nothing to do."
    ]


def test_where_nothing_stands_out_that_is_said() -> None:
    even = {"queue": 1.0, "prefill": 1.0, "text": 1.0, "write": 1.0}
    calm = replace(found(), engine={"compute": 10.0}, whole=None, first_token=even)
    assert conclude(calm) == ["Nothing stands out."]
