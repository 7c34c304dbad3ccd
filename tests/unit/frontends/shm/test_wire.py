"""What is said in shared memory arrives as it was said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.errors import (
    CheckpointError,
    ContextTooLong,
    EngineError,
    InvalidRequest,
    ModelNotFound,
    Overloaded,
    RefusalReason,
    RequestError,
    TailraceError,
    UnavailableError,
)
from tailrace.frontends.shm.wire import DELTAS, FAILURES, USAGES, encode_delta, encode_failure, encode_usage
from tailrace.service.api import CallDelta, ChoiceDelta, TextLogprob, Usage
from tailrace.types import FinishReason, Level, MissReason

IDS = st.integers(0, 2**31 - 1)
LOGPROBS = st.floats(max_value=0, allow_nan=False)
TOPS = st.builds(TextLogprob, IDS, st.text(), st.binary(), LOGPROBS, st.just(()), st.integers(0, 999))
TEXT_LOGPROBS = st.builds(
    TextLogprob,
    *(IDS, st.text(), st.binary(), LOGPROBS),
    *(st.lists(TOPS, max_size=3).map(tuple), st.integers(0, 999), st.booleans()),
)
CALLS = st.lists(st.builds(CallDelta, st.integers(0, 9), st.text(), st.text(), st.text()), max_size=2).map(tuple)
DELTA = st.builds(
    ChoiceDelta,
    st.integers(0, 127),
    st.text(),
    st.lists(IDS, max_size=4).map(tuple),
    st.lists(TEXT_LOGPROBS, max_size=2).map(tuple),
    st.none() | st.sampled_from(FinishReason),
    reasoning=st.text(max_size=3),
    calls=CALLS,
)
LAST_DELTA = st.builds(
    ChoiceDelta,
    st.integers(0, 127),
    st.text(),
    finish_reason=st.sampled_from(FinishReason),
    stop_reason=st.none() | st.text() | IDS,
    error=st.none() | st.text(),
)
COUNT = st.integers(0, 2**40)
FOUND = st.lists(st.tuples(st.sampled_from(Level), COUNT), max_size=4).map(tuple)


@given(DELTA | LAST_DELTA)
def test_a_delta_arrives_as_it_was(delta: ChoiceDelta) -> None:
    assert DELTAS.decode(encode_delta(delta)).to_choice_delta() == delta


@given(st.builds(Usage, COUNT, COUNT, COUNT, FOUND, st.none() | st.sampled_from(MissReason), COUNT))
def test_usage_arrives_as_it_was(usage: Usage) -> None:
    assert USAGES.decode(encode_usage(usage)).to_usage() == usage


@pytest.mark.parametrize(
    "error",
    [
        InvalidRequest("no", param="top_p", code="unsupported_parameter"),
        ContextTooLong("too long", param="prompt"),
        ModelNotFound("not here", param="model"),
        RequestError("else", code="stalled"),
        Overloaded("not now", retry_after_s=2.5, reason=RefusalReason.TENANT_LIMIT),
        UnavailableError("loading", retry_after_s=1.0),
        UnavailableError("gone"),
        EngineError("our fault"),
    ],
)
def test_an_error_is_raised_as_what_it_was(error: TailraceError) -> None:
    arrived = FAILURES.decode(encode_failure(error)).to_error()
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert vars(arrived) == vars(error)


def test_what_is_no_error_of_a_request_is_the_engines() -> None:
    assert type(FAILURES.decode(encode_failure(CheckpointError("torn"))).to_error()) is EngineError


def test_an_error_fits_into_a_lane_however_much_it_says() -> None:
    assert len(encode_failure(InvalidRequest("é" * 1_000_000, param="prompt"))) < 8192
