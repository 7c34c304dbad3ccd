from array import array
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.engine.wire import (
    Abort,
    Detail,
    Kind,
    Message,
    MessageDamaged,
    Pause,
    Proceed,
    Submit,
    decode,
    detail_of,
    encode,
    number_of,
)
from tailrace.errors import RefusalReason
from tailrace.types import (
    Beginning,
    BlockTarget,
    Explain,
    Explanation,
    FinishReason,
    Guide,
    Invalidate,
    Invalidated,
    Level,
    MissReason,
    ModelTarget,
    PrefixReport,
    PromptChunk,
    PromptTarget,
    Refusal,
    Request,
    SamplingParams,
    TenantTarget,
    TokenEvent,
    TokenLogprob,
)

PREFIX = PrefixReport(((Level.ENGINE, 48), (Level.DISK, 16)), MissReason.EVICTED, 1.5, "other")
BEGINNING = Beginning(1.5, 2.25, 4.0, 0.5, (PromptChunk(2.25, 3.0, 512), PromptChunk(3.5, 4.0, 7)), 1)
SAMPLING = SamplingParams(
    max_tokens=7,
    temperature=0.3,
    seed=2**64 - 1,
    logit_bias=((5, -1.5), (6, 2.0)),
    stop_token_ids=(1, 2),
    num_logprobs=3,
    ignore_eos=True,
)
REQUEST = Request(
    "r-0",
    array("I", [0, 7, 2**32 - 1]),
    SAMPLING,
    arrival_s=12.25,
    cache_salt="täglich",
    output_ids=array("I", [9, 8]),
    class_name="gold",
    guide=Guide('{"grammars": ["täglich"]}'),
    tenant="t",
    ttft_s=0.5,
    queue_ttl_s=4.0,
    is_resumed=True,
    trace=f"00-{'1' * 32}-{'2' * 16}-01",
)
NUMBER = 3 << 56 | 1
MESSAGES: list[Message] = [
    Submit(NUMBER, REQUEST, is_suspect=True),
    Submit(NUMBER, Request("r", array("I", [1]), SamplingParams(1), output_ids=array("I"))),
    Abort(NUMBER, FinishReason.STOP),
    Pause(NUMBER),
    Proceed(NUMBER),
    Explain(NUMBER, array("I", [4, 5]), "salt"),
    Invalidate(NUMBER, BlockTarget(bytes(range(16)))),
    Invalidate(NUMBER, PromptTarget(array("I", [4, 5, 6]), "salt")),
    Invalidate(NUMBER, TenantTarget("salt")),
    Invalidate(NUMBER, ModelTarget(None)),
    Invalidate(NUMBER, ModelTarget(b"fingerprint")),
    Detail(NUMBER, PREFIX, (TokenLogprob(3, -0.1), TokenLogprob(4, -2.0))),
    Detail(NUMBER, PREFIX, beginning=BEGINNING),
    Detail(NUMBER, error="it broke"),
    Detail(NUMBER, refusal=Refusal(RefusalReason.QUEUE_FULL, "too many", 2.0)),
    Explanation(NUMBER, 40, PREFIX, 16, (b"a" * 16, b"b" * 16), b"f"),
    Invalidated(NUMBER, 2, ((Level.ENGINE, 3), (Level.REDIS, None)), 4, 16, 0.001),
]


def packed_message(message: Message) -> tuple[Kind, bytes]:
    kind, parts = encode(message)
    return kind, b"".join(parts)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_what_is_read_is_what_was_written(message: Message) -> None:
    assert decode(*packed_message(message)) == message
    assert number_of(message) == NUMBER


def test_token_ids_may_come_as_any_sequence_and_arrive_packed() -> None:
    plain = replace(REQUEST, prompt_ids=(0, 7, 2**32 - 1), output_ids=[9, 8])
    assert decode(*packed_message(Submit(NUMBER, plain, is_suspect=True))) == MESSAGES[0]


def test_packed_ids_are_not_copied_on_their_way_out() -> None:
    _, parts = encode(MESSAGES[0])
    assert isinstance(REQUEST.prompt_ids, array)
    assert any(part.obj is REQUEST.prompt_ids for part in parts if isinstance(part, memoryview))


def test_what_does_not_fit_its_field_is_said() -> None:
    for odd in (replace(REQUEST, prompt_ids=(2**32,)), replace(REQUEST, tenant="\ud800")):
        with pytest.raises((OverflowError, ValueError)):
            encode(Submit(NUMBER, odd))


def test_a_detail_has_what_a_slot_has_no_room_for() -> None:
    event = TokenEvent("a", 5, PREFIX, None, -0.5, (TokenLogprob(5, -0.5),), "error")
    assert detail_of(7, event, None) == Detail(7, None, event.top_logprobs, "error")
    assert detail_of(7, event._replace(beginning=BEGINNING), PREFIX).beginning is BEGINNING


@given(st.integers(-1, 12), st.binary(max_size=200))
def test_garbage_is_refused(kind: int, payload: bytes) -> None:
    try:
        decode(kind, payload)
    except MessageDamaged:
        return


@given(st.sampled_from(MESSAGES), st.data())
def test_a_message_with_a_hole_in_it_is_refused_or_another_message(message: Message, data: st.DataObject) -> None:
    kind, payload = packed_message(message)
    start = data.draw(st.integers(0, len(payload)))
    end = data.draw(st.integers(start, len(payload)))
    damaged = payload[:start] + data.draw(st.binary(max_size=8)) + payload[end:]
    try:
        decode(data.draw(st.sampled_from([kind, *Kind])), damaged)
    except MessageDamaged:
        return
