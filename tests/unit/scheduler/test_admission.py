from collections.abc import Callable
from dataclasses import replace

import pytest

from tailrace.errors import ContextTooLong, InvalidRequest, SetupError
from tailrace.kvcache.cache import KvCacheConfig
from tailrace.scheduler.admission import longest_sequence, refuse_what_cannot_run, stop_ids
from tailrace.scheduler.config import SchedulerConfig
from tailrace.types import Request
from tests.support.simulation import make_request

CONFIG = SchedulerConfig(
    budget_tokens=16, max_running=4, max_waiting=4, max_waiting_tokens=100, max_model_tokens=20, eos_ids=(0, 9)
)


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
        SchedulerConfig(3, 4, 4, 100, 20, ())


@pytest.mark.parametrize(
    "make",
    [
        lambda: replace(CONFIG, max_running=0),
        lambda: replace(CONFIG, chunk_tokens=0),
        lambda: replace(CONFIG, max_waiting=0),
        lambda: replace(CONFIG, max_waiting_tokens=0),
        lambda: replace(CONFIG, max_model_tokens=0),
    ],
)
def test_bounds_of_nothing_are_refused(make: Callable[[], SchedulerConfig]) -> None:
    with pytest.raises(SetupError, match="must be at least 1, not 0"):
        make()
