"""Calls between DSML tags."""

import pytest

from tailrace.service.formats.conversation import Call
from tailrace.service.formats.dsml import write_calls
from tailrace.service.formats.writer import PromptWriter


def _written(*arguments: str) -> str:
    writer = PromptWriter()
    write_calls(writer, [Call("", "f", each) for each in arguments], "calls")
    return "".join(writer.done().pieces)


def test_without_calls_there_is_no_block() -> None:
    assert _written() == ""


def test_text_is_as_it_is_and_all_else_json() -> None:
    assert _written('{"a": "x\\"é", "b": [1, "é"], "c": null}', "{}") == (
        '\n\n<｜DSML｜calls>\n<｜DSML｜invoke name="f">\n'
        '<｜DSML｜parameter name="a" string="true">x"é</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="b" string="false">[1, "é"]</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="c" string="false">null</｜DSML｜parameter>\n'
        '</｜DSML｜invoke>\n<｜DSML｜invoke name="f">\n\n</｜DSML｜invoke>\n</｜DSML｜calls>'
    )


@pytest.mark.parametrize("arguments", ["", "{", "[1]", "[" * 100_000, '{"a": ' + "9" * 5000 + "}"])
def test_what_is_no_object_is_one_parameter(arguments: str) -> None:
    shown = f'<｜DSML｜parameter name="arguments" string="true">{arguments}</｜DSML｜parameter>'
    assert shown in _written(arguments)
