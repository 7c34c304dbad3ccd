import pytest

from tailrace.bench.goodput import meets, parse_objectives
from tailrace.errors import SetupError


def test_objectives_are_limits_in_milliseconds_by_name() -> None:
    assert parse_objectives(["ttft:200", "tpot:50.5", "e2el:3e4"]) == {"ttft": 200.0, "tpot": 50.5, "e2el": 30000.0}


@pytest.mark.parametrize(
    "word", ["itl:5", "ttft", "ttft:", "ttft:fast", "ttft:0", "ttft:-1", "ttft:nan", "ttft:inf", ":1", ""]
)
def test_what_is_no_objective_is_refused_with_an_example(word: str) -> None:
    with pytest.raises(SetupError, match="as in ttft:200"):
        parse_objectives([word])


def test_an_objective_may_be_given_once() -> None:
    with pytest.raises(SetupError, match="each once"):
        parse_objectives(["ttft:200", "ttft:300"])


def test_a_request_is_good_if_it_meets_every_limit_up_to_equality() -> None:
    objectives = parse_objectives(["ttft:200", "tpot:50"])

    assert meets(objectives, {"ttft": 200.0, "tpot": 50.0, "e2el": 1e9})
    assert not meets(objectives, {"ttft": 200.1, "tpot": 1.0, "e2el": 1.0})
    assert not meets(objectives, {"ttft": 1.0, "tpot": 50.1, "e2el": 1.0})


def test_what_could_not_be_measured_was_not_met() -> None:
    assert not meets(parse_objectives(["tpot:50"]), {"ttft": 1.0, "tpot": None, "e2el": 1.0})
