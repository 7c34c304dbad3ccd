from tailrace.scheduler.foresight import Foresight
from tests.support.simulation import make_request


def test_nothing_is_expected_before_an_answer_has_ended() -> None:
    assert Foresight().num_output_tokens(make_request("r", [1], 50), "gold") == 0


def test_answers_that_ended_tell_how_long_the_next_of_their_class_will_be() -> None:
    foresight = Foresight()
    for _ in range(20):
        foresight.learn(30, "gold")
    assert foresight.num_output_tokens(make_request("r", [1], 50), "gold") == 33
    assert foresight.num_output_tokens(make_request("r", [1], 8), "gold") == 8
    assert foresight.num_output_tokens(make_request("r", [1], 50), "bronze") == 0


def test_requests_of_a_kind_come_to_one_group() -> None:
    foresight = Foresight()
    short, long = make_request("short", range(10), 4), make_request("long", range(2_000), 4)
    for _ in range(50):
        foresight.group_of(short, "gold")
        foresight.group_of(long, "gold")
    assert foresight.group_of(short, "gold") < foresight.group_of(long, "gold")
