"""Reasoning and answer: which text is which, what is markup, and how long anything is held."""

import pytest

from tailrace.service.formats.format import ReasoningTags
from tailrace.service.parsing.reasoning import ReasoningStage
from tailrace.service.parsing.segments import AnswerPiece, ReasoningPiece

CALLS = "<｜tool▁calls▁begin｜>"


def parts(*pieces: str, interrupts: tuple[str, ...] = ()) -> tuple[str, str]:
    """Reasoning and answer of text that comes in these pieces."""
    stage = ReasoningStage(ReasoningTags(), interrupts)
    segments = [segment for piece in pieces for segment in stage.feed(piece)] + stage.finish()
    reasoning = "".join(segment.text for segment in segments if isinstance(segment, ReasoningPiece))
    answer = "".join(segment.text for segment in segments if isinstance(segment, AnswerPiece))
    assert all(isinstance(segment, AnswerPiece | ReasoningPiece) and segment.text for segment in segments)
    return reasoning, answer


@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        ("Hello", "", "Hello"),
        ("", "", ""),
        ("<think>\nhm\n</think>\n\nHello", "hm\n", "Hello"),  # R1
        ("<think>hm</think>Hello", "hm", "Hello"),  # V3.1 and later
        ("</think>Hello", "", "Hello"),  # V3.1 that does not think
        ("\n <think>hm</think> Hello", "hm", " Hello"),  # a space is no separator
        ("<think>\n\n</think>\n\nHello", "", "Hello"),  # Qwen that does not think
        ("<think></think>", "", ""),
        ("<think>\n\n", "", ""),
        ("<think>hm", "hm", ""),
        ("<think>hm</thi", "hm</thi", ""),
        ("<thi", "", "<thi"),
        (" \n", "", " \n"),
        ("so <think>hm</think>", "", "so <think>hm</think>"),
        ("Hello</think>", "", "Hello</think>"),
        ("</think></think>Hello", "", "</think>Hello"),
        ("</think><think>hm</think>", "", "<think>hm</think>"),
        ("<think>a<think>b</think>c", "a<think>b", "c"),
        ("<think>a</think>b</think>c<think>", "a", "b</think>c<think>"),
        ("<think>1 < 2 </ 3</think>c", "1 < 2 </ 3", "c"),
    ],
)
def test_text_is_told_apart(text: str, reasoning: str, answer: str) -> None:
    assert parts(text) == (reasoning, answer)
    assert parts(*text) == (reasoning, answer)


def test_a_call_ends_the_reasoning_and_is_answer() -> None:
    text = f"<think>so\n\n{CALLS}f</think>"
    for pieces in ([text], text):
        assert parts(*pieces, interrupts=(CALLS,)) == ("so\n\n", f"{CALLS}f</think>")


def test_a_call_that_begins_behind_a_tag_comes_whole() -> None:
    for text in (f"<think>\n{CALLS}", f"<think>\n</think>\n{CALLS}", CALLS):
        assert parts(*text, interrupts=(CALLS,)) == ("", CALLS)


def test_it_holds_what_may_become_a_tag_and_no_more() -> None:
    stage = ReasoningStage(ReasoningTags())
    held = []
    for character in " <think>\na<</thx</think>\nb":
        stage.feed(character)
        held.append(stage.num_held)
    assert held == [1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 1, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0]


def test_not_any_amount_of_white_space_is_in_front_of_a_tag() -> None:
    for count, expected in ((256, ("hm", "")), (257, ("", "\n" * 257 + "<think>hm"))):
        text = "\n" * count + "<think>hm"
        for pieces in ([text], text):
            assert parts(*pieces) == expected


def test_it_knows_where_reasoning_ends() -> None:
    stage = ReasoningStage(ReasoningTags())
    assert stage.reasoning_end == 0
    stage.feed("<think>a")
    assert stage.reasoning_end > 1000
    stage.feed("b</think>\n\nc")
    assert stage.reasoning_end == len("<think>ab</think>")


def test_where_there_is_none_no_reasoning_ends() -> None:
    for text in ("</think>a", "a</think>"):
        stage = ReasoningStage(ReasoningTags())
        stage.feed(text)
        assert stage.reasoning_end == 0


def test_reasoning_ends_where_a_call_begins() -> None:
    stage = ReasoningStage(ReasoningTags(), (CALLS,))
    stage.feed("<think>ab")
    stage.feed(CALLS + "c")
    assert stage.reasoning_end == len("<think>ab")


def test_it_is_over_when_all_else_is_answer() -> None:
    stage = ReasoningStage(ReasoningTags())
    stage.feed("<think>a</think>\n")
    assert not stage.is_over
    stage.feed("b")
    assert stage.is_over
