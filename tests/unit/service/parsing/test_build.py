"""Which stages there are: none where there is nothing to find."""

from tailrace.service.answer_form import ALL_TEXT, AnswerForm
from tailrace.service.formats.format import ReasoningTags
from tailrace.service.parsing.build import machine_factory, markup_strings
from tailrace.service.parsing.segments import AnswerPiece, CallBegins, CallGoesOn, ReasoningPiece

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


def test_calls_are_taken_out_where_there_are_tools() -> None:
    said = '<think>hm<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    for has_tools, kinds in ((True, [ReasoningPiece, CallBegins, CallGoesOn]), (False, [ReasoningPiece])):
        form = AnswerForm("hermes", has_tools=has_tools)
        make = machine_factory(TAGS, "hermes", form, (), include_stop=False)
        assert make is not None
        machine = make()
        assert [type(segment) for segment in machine.feed(said) + machine.finish()] == kinds
        assert ("<tool_call>" in markup_strings(TAGS, "hermes", form)) is has_tools


def test_a_format_may_have_calls_and_no_reasoning() -> None:
    form = AnswerForm("hermes", has_tools=True)
    assert machine_factory(None, "hermes", form, (), include_stop=False) is not None
    assert markup_strings(None, "hermes", form) == ("<tool_call>", "</tool_call>")
