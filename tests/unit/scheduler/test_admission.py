from collections.abc import Callable
from dataclasses import replace

import pytest

from tailrace.classes import STANDARD, ServiceClass
from tailrace.errors import ContextTooLong, InvalidRequest, RefusalReason, SetupError
from tailrace.kvcache.cache import KvCacheConfig
from tailrace.scheduler.admission import expired, longest_sequence, refusal_of, refuse_what_cannot_run, stop_ids
from tailrace.scheduler.config import SchedulerConfig
from tailrace.scheduler.prediction import Prediction
from tailrace.types import Refusal, Request
from tests.support.simulation import make_request

CONFIG = SchedulerConfig(budget_tokens=16, max_running=4, max_model_tokens=20, eos_ids=(0, 9))


def check(request: Request, num_blocks: int = 5) -> None:
    refuse_what_cannot_run(request, CONFIG, KvCacheConfig(num_blocks, 4, ()))


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (make_request("r", []), "no tokens"),
        (make_request("r", [1], max_tokens=0), "at least 1, not 0"),
        (make_request("r", [1, -2]), "token ids must lie"),
        (make_request("r", [2**32]), "token ids must lie"),
        (make_request("r", [1], 5, output_ids=(-1,)), "token ids must lie"),
        (make_request("r", [1], 2, output_ids=(5, 6)), "2 output tokens are delivered already"),
        (make_request("r", [1] * 18, 9, output_ids=(5, 6)), "do not resume it"),
    ],
)
def test_malformed_requests_are_refused(request_: Request, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        check(request_)


def test_a_prompt_needs_room_for_one_token_behind_it() -> None:
    check(make_request("r", [1] * 19, 1))
    with pytest.raises(ContextTooLong, match="has 20 tokens and the model takes 20"):
        check(make_request("r", [1] * 20, 1))


def test_a_request_that_all_blocks_cannot_hold_is_refused() -> None:
    check(make_request("r", [1] * 8, 5), num_blocks=3)
    with pytest.raises(ContextTooLong, match="need room for 13 tokens and the KV cache holds 12"):
        check(make_request("r", [1] * 8, 6), num_blocks=3)


def test_only_what_the_context_allows_must_fit() -> None:
    check(make_request("r", [1] * 8, 10_000), num_blocks=5)


def test_the_longest_sequence_ends_at_max_tokens_or_the_context() -> None:
    assert longest_sequence(make_request("r", [1] * 8, 5), CONFIG) == 13
    assert longest_sequence(make_request("r", [1] * 8, 50), CONFIG) == 20


def test_ignored_end_tokens_do_not_stop() -> None:
    assert stop_ids(make_request("r", [1], stop_token_ids=(7,)).sampling, CONFIG) == {0, 7, 9}
    assert stop_ids(make_request("r", [1], stop_token_ids=(7,), ignore_eos=True).sampling, CONFIG) == {7}


def test_a_budget_below_one_token_a_stream_is_refused() -> None:
    with pytest.raises(SetupError, match="budget_tokens is 3 but max_running is 4"):
        SchedulerConfig(3, 4, 20, ())


@pytest.mark.parametrize(
    "make",
    [
        lambda: replace(CONFIG, max_running=0),
        lambda: replace(CONFIG, chunk_tokens=0),
        lambda: replace(CONFIG, max_model_tokens=0),
    ],
)
def test_bounds_of_nothing_are_refused(make: Callable[[], SchedulerConfig]) -> None:
    with pytest.raises(SetupError, match="must be at least 1, not 0"):
        make()


GOLD, SILVER, BRONZE = STANDARD


def decide(prediction: Prediction | None, service_class: ServiceClass = GOLD, ttft_s: float | None = None) -> Refusal:
    refusal = decision(prediction, service_class, ttft_s)
    assert refusal is not None
    return refusal


def decision(
    prediction: Prediction | None, service_class: ServiceClass = GOLD, ttft_s: float | None = None
) -> Refusal | None:
    request = replace(make_request("r", [1]), ttft_s=ttft_s)
    return refusal_of(
        prediction, request, service_class, STANDARD, lambda prediction, target_s: prediction[0] - target_s
    )


def test_a_request_that_others_make_late_is_refused_with_what_to_do() -> None:
    assert decide(Prediction(12.5, 0.1)) == Refusal(
        RefusalReason.TARGET_UNREACHABLE,
        "the first token would come in about 12.5 s because of the requests ahead, later than the 1 s that class gold "
        'promises: come back in 12 s, or ask for a class that waits longer (service_tier "flex")',
        11.5,
    )


def test_the_last_class_is_not_told_to_wait_longer() -> None:
    assert decide(Prediction(62.0, 0.1), BRONZE).message.endswith("that class bronze promises: come back in 2 s")


def test_a_request_may_set_its_own_target() -> None:
    assert "later than the 0.25 s that it asks for" in decide(Prediction(2.0, 0.1), SILVER, ttft_s=0.25).message
    assert decision(Prediction(2.0, 0.1), SILVER) is None
    assert decision(Prediction(2.0, 0.1), GOLD, ttft_s=3.0) is None


def test_what_an_idle_engine_could_not_do_in_time_either_is_not_refused() -> None:
    assert decision(Prediction(9.9, 5.0)) is None
    assert decision(Prediction(10.1, 5.0)) is not None


def test_nothing_is_refused_of_a_class_that_waits_nor_while_nothing_is_known() -> None:
    assert decision(Prediction(100.0, 0.1), replace(GOLD, is_refused_late=False)) is None
    assert decision(None) is None


def test_a_request_that_waited_for_too_long_is_told_so() -> None:
    request = make_request("r", [1])
    assert expired(request, GOLD, STANDARD, 10.2, 3.0) == Refusal(
        RefusalReason.QUEUE_TIMEOUT,
        "it has not started after 10.2 s in the queue, as long as class gold waits: come back in 3 s, or ask for a "
        'class that waits longer (service_tier "flex")',
        3.0,
    )
    own = expired(replace(request, queue_ttl_s=10.0), GOLD, STANDARD, 10.2, 3.0)
    assert own.message.endswith("as long as it allows: come back in 3 s, or allow more")
