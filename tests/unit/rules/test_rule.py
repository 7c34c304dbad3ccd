import pytest

from tailrace.errors import SetupError
from tailrace.rules.rule import Action, Rule, Side, Signal


def make(**fields: object) -> Rule:
    given = {
        "name": "r",
        "signal": Signal.HIT_RATE,
        "subject": "redis",
        "side": Side.BELOW,
        "threshold": 0.6,
        "for_s": 180.0,
        "clear_at": 0.66,
        "clear_for_s": 180.0,
        **fields,
    }
    return Rule(**given)  # type: ignore[arg-type]  # mypy: fields of several types


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"name": ""}, "cannot be called"),
        ({"name": "a b"}, "cannot be called"),
        ({"name": "x" * 49}, "cannot be called"),
        ({"clear_at": 0.5}, "clear_at must not lie on the side of trouble"),
        ({"side": Side.ABOVE, "clear_at": 0.61}, "clear_at must not lie on the side of trouble"),
        ({"for_s": 0.0}, "for_s must lie in"),
        ({"clear_for_s": float("inf")}, "clear_for_s must lie in"),
        ({"window_s": -1.0}, "window_s must lie in"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_by_the_name_of_the_field(
    fields: dict[str, object], complaint: str
) -> None:
    with pytest.raises(SetupError, match=complaint):
        make(**fields)


def test_a_rule_says_what_it_looks_at_and_what_it_does() -> None:
    made = make(action=Action.BYPASS, target="redis")
    assert (made.words, made.deed) == ("hit_rate of redis below 0.6 for 180 s", "bypass redis")
    assert (make(signal=Signal.KV_USE, subject="").words, make().deed) == ("kv_use below 0.6 for 180 s", "warn")
