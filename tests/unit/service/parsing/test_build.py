"""Which stages there are: none where there is nothing to find."""

from tailrace.service.answer_form import ALL_TEXT, AnswerForm
from tailrace.service.formats.format import ReasoningTags
from tailrace.service.parsing.build import machine_factory, markup_strings
from tailrace.service.parsing.segments import AnswerPiece, ReasoningPiece

TAGS = ReasoningTags()
OPENED = AnswerForm("deepseek-r1", "<think>\n")


def test_plain_text_needs_no_machine() -> None:
    assert machine_factory(TAGS, "", ALL_TEXT, (), include_stop=False) is None
    assert machine_factory(None, "", OPENED, (), include_stop=False) is None
    assert markup_strings(TAGS, "", ALL_TEXT) == ()


def test_reasoning_is_told_apart_from_where_the_prompt_ends() -> None:
    make = machine_factory(TAGS, "", OPENED, (), include_stop=False)
    assert make is not None
    for _ in range(2):  # each choice has one of its own
        assert make().feed("hm</think>so") == [ReasoningPiece("hm"), AnswerPiece("so")]
    assert markup_strings(TAGS, "", OPENED) == ("<think>", "</think>")


def test_stop_strings_alone_are_met() -> None:
    make = machine_factory(TAGS, "", ALL_TEXT, ("S",), include_stop=True)
    assert make is not None
    machine = make()
    assert machine.feed("<think>aSb") == [AnswerPiece("<think>aS")]
    assert machine.matched == "S"
