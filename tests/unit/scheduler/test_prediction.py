import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.errors import MAX_RETRY_S, MIN_RETRY_S
from tailrace.scheduler.prediction import Ahead, Prediction, Shortage, TtftPredictor

NOTHING_AHEAD = Ahead(0, 0, 8, 100_000)
SHARES = (0.01, 0.05, 0.05)


def predictor_at(tokens_per_s: int, shares: tuple[float, ...] = SHARES) -> TtftPredictor:
    """It has seen prompts wait, for long, while so many of their tokens were computed."""
    predictor = TtftPredictor(shares)
    for _ in range(500):
        step(predictor, Shortage.TOKENS, num_prefill_tokens=tokens_per_s // 10)
    return predictor


def step(
    predictor: TtftPredictor,
    shortage: Shortage | None,
    *,
    took_s: float = 0.1,
    num_prefill_tokens: int = 0,
    num_started: int = 0,
    num_started_tokens: int = 0,
) -> None:
    predictor.observe_step(
        took_s,
        shortage,
        num_prefill_tokens=num_prefill_tokens,
        num_started=num_started,
        num_started_tokens=num_started_tokens,
    )


def predict(
    predictor: TtftPredictor,
    ahead: Ahead,
    own_tokens: int = 100,
    *,
    rank: int = 0,
    alone_rate: float | None = None,
    now_s: float = 0.0,
) -> Prediction:
    prediction = predictor.predict(ahead, own_tokens, rank=rank, alone_rate=alone_rate, now_s=now_s)
    assert prediction is not None
    return prediction


def test_who_has_measured_nothing_predicts_nothing() -> None:
    predictor = TtftPredictor(SHARES)
    step(predictor, None, num_prefill_tokens=1_000)
    assert predictor.predict(NOTHING_AHEAD, 100, rank=0, alone_rate=None, now_s=0.0) is None
    assert predictor.median_error is None


def test_the_work_ahead_is_done_at_the_rate_that_was_measured() -> None:
    prediction = predict(predictor_at(1_000), Ahead(4_000, 3, 8, 100_000), own_tokens=500)
    assert prediction.ttft_s == pytest.approx(4.5)
    assert prediction.alone_s == pytest.approx(0.5)


def test_time_that_was_waited_counts() -> None:
    predictor = predictor_at(1_000)
    prediction = predictor.predict(NOTHING_AHEAD, 500, rank=0, alone_rate=None, now_s=0.0, waited_s=2.0)
    assert prediction is not None
    assert prediction.ttft_s == pytest.approx(2.5)


def test_before_prompts_have_waited_they_are_as_fast_as_alone() -> None:
    prediction = predict(TtftPredictor(SHARES), Ahead(1_000, 1, 8, 100_000), own_tokens=100, alone_rate=2_000)
    assert prediction[:2] == pytest.approx((0.55, 0.05))


def test_streams_beside_slow_prompts_down_and_do_not_count_as_being_alone() -> None:
    prediction = predict(predictor_at(500), NOTHING_AHEAD, own_tokens=1_000, alone_rate=2_000)
    assert prediction.alone_s == 0.5
    assert prediction.ttft_s == pytest.approx(1_000 / 500, rel=0.1)


def test_who_has_the_machine_for_itself_is_as_fast_as_alone_whatever_was_measured_under_load() -> None:
    predictor = predictor_at(20)
    predictor.observe_arrival(0, 1_000_000, 0.0)
    prediction = predict(predictor, NOTHING_AHEAD._replace(is_idle=True), 1_000, rank=1, alone_rate=2_000)
    assert prediction == (0.5, 0.5, 0.0, 1_000)


@pytest.mark.parametrize("shortage", [Shortage.ROOM, Shortage.PLACES])
def test_steps_in_which_no_prompt_had_begun_do_not_tell_how_fast_prompts_are(shortage: Shortage) -> None:
    predictor = predictor_at(1_000)
    for _ in range(200):
        step(predictor, shortage)
    assert predict(predictor, NOTHING_AHEAD, 1_000, alone_rate=1_000).ttft_s == pytest.approx(1.0)


def test_hours_in_which_nobody_starts_do_not_make_a_prediction_infinite() -> None:
    """Of a count that fades for so long only a denormal number is left, by which nothing can be divided."""
    predictor = predictor_at(1_000)
    step(predictor, Shortage.PLACES, num_prefill_tokens=10, num_started=1)
    step(predictor, Shortage.PLACES, took_s=7_200.0, num_prefill_tokens=10)
    prediction = predict(predictor, Ahead(0, 1, 0, 100_000))
    assert prediction.ttft_s < 1e9
    predictor.settle(prediction, 1.0, rank=0)


def test_a_rate_is_believed_for_as_long_as_prompts_wait() -> None:
    predictor = predictor_at(100)
    before = predict(predictor, NOTHING_AHEAD, 1_000, alone_rate=2_000).ttft_s
    for _ in range(600):
        step(predictor, None, num_prefill_tokens=1)
    after = predict(predictor, NOTHING_AHEAD, 1_000, alone_rate=2_000).ttft_s
    assert before > 6.0
    assert after < 0.7


def test_steps_in_which_nobody_waits_say_nothing_of_the_rate() -> None:
    predictor = predictor_at(1_000)
    step(predictor, None, num_prefill_tokens=0, took_s=5.0)
    assert predict(predictor, NOTHING_AHEAD, 1_000).ttft_s == pytest.approx(1.0)


def test_who_needs_a_place_waits_for_those_ahead_to_get_theirs() -> None:
    predictor = predictor_at(1_000)
    for _ in range(100):
        step(predictor, Shortage.PLACES, num_prefill_tokens=100, num_started=1, num_started_tokens=10)  # ten a second
    assert predict(predictor, Ahead(0, 19, 0, 100_000)).ttft_s == pytest.approx(2.0 + 0.1)
    assert predict(predictor, Ahead(0, 19, 15, 100_000)).ttft_s == pytest.approx(0.5 + 0.1)
    assert predict(predictor, Ahead(0, 19, 20, 100_000)).ttft_s == pytest.approx(0.1)
    # While they wait for places, their prompts are computed.
    assert predict(predictor, Ahead(3_000, 19, 0, 100_000)).ttft_s == pytest.approx(3.0 + 0.1)


def test_who_needs_room_waits_for_it() -> None:
    predictor = predictor_at(1_000)
    for _ in range(100):
        step(predictor, Shortage.ROOM, num_prefill_tokens=100, num_started_tokens=20)
    assert predict(predictor, Ahead(300, 1, 8, 100)).ttft_s == pytest.approx(300 / 200 + 0.1)
    assert predict(predictor, Ahead(300, 1, 8, 400)).ttft_s == pytest.approx(0.3 + 0.1)


def test_places_that_were_never_scarce_are_not_waited_for() -> None:
    assert predict(predictor_at(1_000), Ahead(0, 50, 0, 0)).ttft_s == pytest.approx(0.1)


def test_classes_above_go_first_also_those_of_their_requests_that_have_yet_to_come() -> None:
    predictor = predictor_at(1_000)
    for number in range(3_000):
        predictor.observe_arrival(0, 50, number * 0.1)  # gold brings half of what can be computed
    assert predict(predictor, NOTHING_AHEAD, 1_000, rank=0, now_s=300.0).ttft_s == pytest.approx(1.0)
    assert predict(predictor, NOTHING_AHEAD, 1_000, rank=2, now_s=300.0).ttft_s == pytest.approx(2.0, rel=0.05)
    assert predict(predictor, NOTHING_AHEAD, 1_000, rank=2, now_s=600.0).ttft_s == pytest.approx(1.0, rel=0.05)


def test_a_class_keeps_its_share_however_much_those_above_bring() -> None:
    predictor = predictor_at(1_000)
    for number in range(1_000):
        predictor.observe_arrival(0, 5_000, number * 0.1)
    assert predict(predictor, NOTHING_AHEAD, 1_000, rank=2, now_s=100.0).ttft_s == pytest.approx(1.0 / 0.05)


def retry(predictor: TtftPredictor, prediction: Prediction, now_s: float = 0.0, rank: int = 0) -> float:
    return predictor.retry_after_s(prediction, 1.0, 1_000, rank=rank, alone_rate=None, now_s=now_s)


def test_who_is_sent_away_comes_back_when_the_target_can_be_met_one_after_the_other() -> None:
    predictor = predictor_at(1_000)
    late = Prediction(5.0, 1.0)
    assert [retry(predictor, late) for _ in range(3)] == pytest.approx([4.0, 5.0, 6.0])
    assert retry(predictor, late, rank=1) == pytest.approx(4.0)
    assert retry(predictor, late, now_s=2.0) == pytest.approx(4.0 + 1.0)
    assert retry(predictor, late, now_s=60.0) == pytest.approx(4.0)


def test_a_time_to_come_back_is_one_that_clients_heed() -> None:
    predictor = predictor_at(1_000)
    assert retry(predictor, Prediction(1.1, 1.0)) == MIN_RETRY_S
    assert retry(predictor, Prediction(900.0, 1.0)) == MAX_RETRY_S
    for _ in range(1_000):
        retry(predictor, Prediction(2.0, 1.0))
    assert retry(predictor, Prediction(2.0, 1.0), now_s=60.0) == MIN_RETRY_S  # a storm is over after a minute


def settle(predictor: TtftPredictor, predicted_s: float, actual_s: float) -> None:
    predictor.settle(Prediction(predicted_s, 0.0, predicted_s, 100), actual_s, rank=0)


def test_the_error_is_relative_and_of_late() -> None:
    predictor = TtftPredictor(SHARES)
    settle(predictor, 1.0, 0.0)  # came at once: relative to nothing
    assert predictor.median_error is None
    for _ in range(300):
        settle(predictor, 3.0, 1.0)
    assert predictor.median_error == pytest.approx(2.0)
    for _ in range(256):
        settle(predictor, 1.1, 1.0)
    assert predictor.median_error == pytest.approx(0.1)


def test_what_others_of_a_class_and_length_have_found_is_heeded_for_the_time_in_the_queue_alone() -> None:
    predictor = predictor_at(1_000)
    ahead = Ahead(4_000, 3, 8, 100_000)
    for _ in range(100):  # they wait for twice as long as foretold
        prediction = predict(predictor, ahead, own_tokens=500)
        actual_s = prediction.alone_s + 2.0 * prediction.queued_s
        predictor.settle(prediction, actual_s, rank=0)
    assert predict(predictor, ahead, own_tokens=500).ttft_s == pytest.approx(0.5 + 8.0, rel=0.05)
    assert predict(predictor, ahead, own_tokens=300).ttft_s == pytest.approx(0.3 + 8.0, rel=0.05), "of like length"
    assert predict(predictor, ahead, own_tokens=50).ttft_s == pytest.approx(0.05 + 4.0), "of another length"
    assert predict(predictor, ahead, own_tokens=500, rank=1).ttft_s == pytest.approx(0.5 + 4.0), "of another class"
    assert predict(predictor, NOTHING_AHEAD, own_tokens=500).ttft_s == pytest.approx(0.5), "alone"


def test_what_is_found_is_bounded_whatever_happens() -> None:
    predictor = predictor_at(1_000)
    ahead = Ahead(4_000, 3, 8, 100_000)
    for _ in range(1_000):
        predictor.settle(predict(predictor, ahead), 1e6, rank=0)
    assert predict(predictor, ahead).ttft_s <= 0.1 + 8.0 * 4.0 + 1e-6


@given(
    steps=st.lists(
        st.tuples(
            st.none() | st.sampled_from(Shortage),
            st.floats(0.0, 100.0),
            st.integers(0, 10_000),
            st.integers(0, 100),
        ),
        max_size=20,
    ),
    ahead=st.builds(Ahead, *[st.integers(0, 1_000_000)] * 4),
    own_tokens=st.integers(1, 100_000),
    alone_rate=st.none() | st.floats(1.0, 1e6),
    rank=st.integers(0, 2),
)
def test_whatever_was_seen_predictions_are_times_that_grow_with_the_work(
    steps: list[tuple[Shortage | None, float, int, int]],
    ahead: Ahead,
    own_tokens: int,
    alone_rate: float | None,
    rank: int,
) -> None:
    predictor = TtftPredictor(SHARES)
    for number, (shortage, took_s, num_tokens, num_started) in enumerate(steps):
        predictor.observe_arrival(number % 3, num_tokens, float(number))
        step(
            predictor,
            shortage,
            took_s=took_s,
            num_prefill_tokens=num_tokens,
            num_started=num_started,
            num_started_tokens=num_tokens,
        )
    fewer, more = (
        predictor.predict(each, own_tokens, rank=rank, alone_rate=alone_rate, now_s=100.0)
        for each in (ahead, ahead._replace(num_tokens=ahead.num_tokens + 1, num_requests=ahead.num_requests + 1))
    )
    assert (fewer is None) == (more is None)
    if fewer is not None and more is not None:
        assert 0.0 < fewer.alone_s <= fewer.ttft_s <= more.ttft_s < float("inf")
        assert MIN_RETRY_S <= retry(predictor, fewer) <= MAX_RETRY_S
