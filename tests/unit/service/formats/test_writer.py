"""Keeping apart what a format writes and what people said."""

from tailrace.service.formats.writer import PromptWriter


def test_neighbours_of_one_kind_are_one_piece() -> None:
    writer = PromptWriter()
    writer.write("<a>")
    writer.write("<b>")
    writer.say("x")
    writer.say("<y>")
    writer.write("<c>")
    assert writer.done().pieces == ["", "<a><b>", "x<y>", "<c>"]


def test_what_comes_behind_the_opening_belongs_to_the_answer() -> None:
    writer = PromptWriter()
    writer.say("x")
    assert writer.done().opened == ""
    writer.open_answer()
    writer.write("<think>")
    writer.say("Hm")
    assert writer.done().opened == "<think>Hm"
    assert writer.done().pieces == ["x", "<think>", "Hm"]
