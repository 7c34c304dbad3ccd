"""Segments and tokens as deltas: what comes in one, what in several, and the ids of calls."""

from tailrace.service.api import CallDelta, ChoiceDelta
from tailrace.service.delta_writer import DeltaWriter, call_id
from tailrace.service.parsing.segments import AnswerPiece, CallBegins, CallGoesOn, ReasoningPiece, Segment
from tailrace.types import FinishReason


def written(*segments: Segment) -> list[ChoiceDelta]:
    writer = DeltaWriter(2, "r")
    for segment in segments:
        writer.write(segment)
    return writer.take()


def test_what_comes_in_order_is_one_delta() -> None:
    assert written(
        ReasoningPiece("h"),
        ReasoningPiece("m"),
        AnswerPiece("so"),
        CallBegins(0, "f"),
        CallGoesOn(0, "{"),
        CallGoesOn(0, "}"),
        CallBegins(1, "g"),
    ) == [
        ChoiceDelta(
            2,
            "so",
            reasoning="hm",
            calls=(CallDelta(0, "{}", call_id("r", 2, 0), "f"), CallDelta(1, "", call_id("r", 2, 1), "g")),
        )
    ]


def test_text_behind_a_call_and_reasoning_behind_either_are_another_delta() -> None:
    call = CallGoesOn(0, "}")
    assert [delta.text for delta in written(AnswerPiece("a"), call, AnswerPiece("b"))] == ["a", "b"]
    assert [delta.reasoning for delta in written(AnswerPiece("a"), ReasoningPiece("b"))] == ["", "b"]
    assert [delta.reasoning for delta in written(call, ReasoningPiece("b"))] == ["", "b"]


def test_only_the_first_delta_of_a_call_names_it() -> None:
    writer = DeltaWriter(0, "r")
    writer.write(CallBegins(0, "f"))
    writer.take()
    writer.write(CallGoesOn(0, "{}"))
    assert writer.take() == [ChoiceDelta(0, "", calls=(CallDelta(0, "{}"),))]


def test_tokens_come_with_the_text_that_was_written_last() -> None:
    writer = DeltaWriter(0, "r")
    writer.write(CallGoesOn(0, "}"))
    writer.add_tokens(((1, 2), ()))
    writer.write(AnswerPiece("a"))
    writer.add_tokens(((3,), ()))
    assert [delta.token_ids for delta in writer.take()] == [(1, 2), (3,)]
    assert writer.take() == []


def test_the_last_delta_has_the_end() -> None:
    writer = DeltaWriter(0, "r")
    writer.write(CallGoesOn(0, "}"))
    writer.write(AnswerPiece("a"))
    first, last = writer.end(FinishReason.ERROR, "x", "broken")
    assert (first.finish_reason, first.error) == (None, None)
    assert (last.finish_reason, last.stop_reason, last.error) == (FinishReason.ERROR, "x", "broken")
    assert DeltaWriter(1, "r").end(FinishReason.STOP, None, None) == [
        ChoiceDelta(1, "", finish_reason=FinishReason.STOP)
    ]


def test_ids_of_calls_follow_from_request_choice_and_number() -> None:
    ids = {call_id(request, choice, number) for request in ("a", "a/1") for choice in (1, 11) for number in (1, 2)}
    assert len(ids) == 8
    assert all(each.startswith("call_") and len(each) == 29 and int(each[5:], 16) for each in ids)
    assert call_id("a", 0, 1) == call_id("a", 0, 1)
