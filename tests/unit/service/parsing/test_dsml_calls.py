"""Calls in DSML. Where DeepSeek's own parser (deepseek-recipe 0.2.0, V4) says something, these are its values."""

import json
import re

import pytest

from tailrace.service.parsing.segments import AnswerPiece, CallBegins, CallGoesOn
from tailrace.service.parsing.tools import call_stage
from tests.support.calls import cut_every_way, parsed

STYLES = ("deepseek_v32", "deepseek_v4", "deepseek_v41")
NOTHING = '<｜DSML｜invoke name="f">\n</｜DSML｜invoke>'


def block(*invokes: str, before: str = "Hi\n\n", behind: str = "") -> str:
    return before + "\n".join(["<｜DSML｜tool_calls>", *invokes, "</｜DSML｜tool_calls>"]) + behind


def invoke(*parameters: str, attributes: str = 'name="f"') -> str:
    return f"<｜DSML｜invoke {attributes}>\n{''.join(parameters)}</｜DSML｜invoke>"


def parameter(value: str, attributes: str = 'name="p" string="true"') -> str:
    return f"<｜DSML｜parameter {attributes}>{value}</｜DSML｜parameter>\n"


A = parameter("a")
RAW = 'name="p" string="false"'
OPEN = "Hi\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke"

AS_DEEPSEEK_DOES: dict[str, tuple[str, list[str | tuple[str, str]]]] = {
    "strings and others": (
        block(invoke(parameter('text "q" \\ \n é 😀 \x01 </b>'), parameter("[1, 2]", 'name="q" string="false"'))),
        ["Hi", ("f", '{"p": "text \\"q\\" \\\\ \\n é 😀 \\u0001 </b>", "q": [1, 2]}')],
    ),
    "no parameters": (block(NOTHING), ["Hi", ("f", "{}")]),
    "one tag": (block('<｜DSML｜invoke name="f"/>'), ["Hi", ("f", "{}")]),
    "one tag with a space": (block('<｜DSML｜invoke name="f" />'), ["Hi", ("f", "{}")]),
    "two calls": (block(invoke(A), invoke(parameter("b"))), ["Hi", ("f", '{"p": "a"}'), ("f", '{"p": "b"}')]),
    "one line end before": (block(invoke(A), before="Hi\n"), ["Hi", ("f", '{"p": "a"}')]),
    "nothing before": (block(invoke(A), before="Hi"), ["Hi", ("f", '{"p": "a"}')]),
    "a space before": (block(invoke(A), before="Hi \n\n"), ["Hi ", ("f", '{"p": "a"}')]),
    "no answer": (block(invoke(A), before="\n\n"), [("f", '{"p": "a"}')]),
    "escapes of XML": (
        block(invoke(parameter("a &lt; b &amp;", 'name="p&quot;x" string="true"'))),
        ["Hi", ("f", '{"p&quot;x": "a &lt; b &amp;"}')],
    ),
    "white space in a value": (block(invoke(parameter("  a \n"))), ["Hi", ("f", '{"p": "  a \\n"}')]),
    "a value that is no JSON": (block(invoke(parameter("hello", RAW))), ["Hi", ("f", '{"p": hello}')]),
    "a value of nothing": (block(invoke(parameter("", RAW))), ["Hi", ("f", '{"p": }')]),
    "a value with space": (block(invoke(parameter(' {"a":  1 }\n', RAW))), ["Hi", ("f", '{"p":  {"a":  1 }\n}')]),
    "a name twice": (block(invoke(A, parameter("b"))), ["Hi", ("f", '{"p": "a", "p": "b"}')]),
    "no end of a parameter": (
        block(invoke('<｜DSML｜parameter name="p" string="true">abc\n')),
        ["Hi", ("f", '{"p": "abc\\n"}')],
    ),
    "a value that looks like a parameter": (
        block(invoke(parameter('x <｜DSML｜parameter name="q" string="true"> y'))),
        ["Hi", ("f", '{"p": "x <｜DSML｜parameter name=\\"q\\" string=\\"true\\"> y"}')],
    ),
    "another attribute": (
        block(invoke(parameter("a", 'name="p" type="x" string="true"'))),
        ["Hi", ("f", '{"p": "a"}')],
    ),
    "an end in a name": (block(invoke(parameter("a", 'name="p>x" string="true"'))), ["Hi", ("f", '{"p>x": "a"}')]),
    "cut in a value": (
        f'{OPEN} name="f">\n<｜DSML｜parameter name="p" string="true">abc',
        ["Hi", ("f", '{"p": "abc')],
    ),
    "cut in the end of a string": (
        f'{OPEN} name="f">\n<｜DSML｜parameter name="p" string="true">abc</｜DSML｜param',
        ["Hi", ("f", '{"p": "abc"')],
    ),
    "cut in the end of a value": (
        f'{OPEN} name="f">\n<｜DSML｜parameter name="p" string="false">1</｜DSML｜',
        ["Hi", ("f", '{"p": 1')],
    ),
    "cut in the end of a call": (f'{OPEN} name="f">\n{A}</｜DSML｜', ["Hi", ("f", '{"p": "a"}')]),
    "cut in an end tag with more in it": (f'{OPEN} name="f">\n</｜DSML｜invoke so.', ["Hi", ("f", "{}"), "invoke so."]),
    "cut behind the name": (f'{OPEN} name="f">\n', ["Hi", ("f", "")]),
    "no block": (invoke(A), [("f", '{"p": "a"}')]),
}
BEYOND: dict[str, tuple[str, list[str | tuple[str, str]]]] = {
    "another order": (block(invoke(parameter("a", 'string="true" name="p"'))), ["Hi", ("f", '{"p": "a"}')]),
    "not said to be a string": (block(invoke(parameter("a", 'name="p"'))), ["Hi", ("f", '{"p": "a"}')]),
    "a large letter": (block(invoke(parameter("1", 'name="p" string="False"'))), ["Hi", ("f", '{"p": 1}')]),
    "parameters of one tag": (
        block(invoke('<｜DSML｜parameter name="p" string="true"/>', '<｜DSML｜parameter name="q" string="false"/>')),
        ["Hi", ("f", '{"p": "", "q": null}')],
    ),
    "an object for parameters": (block(invoke('{"a": "<b>\n"}\n')), ["Hi", ("f", '{"a": "<b>\n"}')]),
    "an object and a parameter": (block(invoke("{} ", A)), ["Hi", ("f", "{} "), "a"]),
    "an object that is cut": (f'{OPEN} name="f">\n {{"a": [1, <', ["Hi", ("f", '{"a": [1, <')]),
    "text in a call": (block(invoke("stray", A, "more")), ["Hi", ("f", '{"p": "a"}'), "stray", "more"]),
    "text between calls": (block(invoke(A), "and", NOTHING), ["Hi", ("f", '{"p": "a"}'), "and", ("f", "{}")]),
    "text behind": (block(invoke(A), behind="\n\nmore\n"), ["Hi", ("f", '{"p": "a"}'), "more\n"]),
    "many line ends before": (block(NOTHING, before="Hi\n\n\n"), ["Hi\n", ("f", "{}")]),
    "no end of a call": (
        block('<｜DSML｜invoke name="f">\n' + A + '<｜DSML｜invoke name="g">\n' + A),
        ["Hi", ("f", '{"p": "a"}'), ("g", '{"p": "a"}')],
    ),
    "cut in a name": (f'{OPEN} name="wea', ["Hiwea"]),
    "cut in a tag": (OPEN, ["Hi"]),
    "cut in what opens a tag of the block": ("Hi\n\n<｜DSML｜tool_calls>\n<", ["Hi"]),
    "cut in what opens a tag of the call": (f'{OPEN} name="f">\n<', ["Hi", ("f", "")]),
    "cut in what opens a tag": ("Hi\n\n<｜DSML", ["Hi\n\n<｜DSML"]),
    "cut in the name of a parameter": (f'{OPEN} name="f">\n<｜DSML｜parameter name="ci', ["Hi", ("f", '{"ci')]),
    "cut behind the name of a parameter": (
        f'{OPEN} name="f">\n{A}<｜DSML｜parameter name="city" st',
        ["Hi", ("f", '{"p": "a", "city": ')],
    ),
    "no name": (block(invoke(A, attributes='nome="f"')), ['Hiinvoke nome="f">a']),
    "a tag of another name": ("a <｜DSML｜think>b", ["a think>b"]),
    "a parameter of no name": (block(invoke("<｜DSML｜parameter>a")), ["Hi", ("f", "{}"), "parameter>a"]),
    "ends that belong nowhere": ("a</｜DSML｜parameter> b</｜DSML｜invoke>", ["ab"]),
}
TEXTS = AS_DEEPSEEK_DOES | BEYOND


@pytest.mark.parametrize(("text", "parts"), TEXTS.values(), ids=TEXTS)
def test_calls_and_text_in_any_cutting(text: str, parts: list[str | tuple[str, str]]) -> None:
    assert parsed("deepseek_v4", text) == parts
    cut_every_way("deepseek_v4", text)


@pytest.mark.parametrize("style", STYLES)
def test_each_version_has_its_name_for_the_block(style: str) -> None:
    name, space = {"deepseek_v32": ("function_calls", ""), "deepseek_v41": ("calls", " ")}.get(
        style, ("tool_calls", "")
    )
    text = block(invoke(A)).replace("tool_calls", name).replace("｜DSML｜", "｜DSML｜" + space)
    assert parsed(style, text) == ["Hi", ("f", '{"p": "a"}')]


def test_nothing_waits_that_is_decided() -> None:
    stage = call_stage("deepseek_v4")
    assert stage.feed("Hello\n") == [AnswerPiece("Hello")]
    assert stage.feed("\n") == []
    assert stage.feed("\n") == [AnswerPiece("\n")]
    assert stage.feed("<｜DSML｜tool_calls>\n<｜DSML｜invoke ") == []
    assert stage.feed('name="f">') == [CallBegins(0, "f")]
    assert stage.feed('\n<｜DSML｜parameter name="p" string="true">') == [CallGoesOn(0, '{"p": "')]
    assert stage.feed('say "x" </') == [CallGoesOn(0, 'say \\"x\\" ')]
    assert stage.num_held == 2
    assert stage.feed("b>") == [CallGoesOn(0, "</b>")]
    assert stage.feed("</｜DSML｜parameter>") == [CallGoesOn(0, '"')]
    assert stage.feed("</｜DSML｜invoke>") == [CallGoesOn(0, "}")]
    assert stage.num_held == 0


def test_a_parse_of_the_whole_text_finds_the_same() -> None:
    values = ["x\ny", 'q"', "\\", "</｜DSML｜param", "😀" * 3, ""]
    text = block(
        *(invoke(parameter(value), parameter(str(i), 'name="n" string="false"')) for i, value in enumerate(values))
    )
    found: list[str | tuple[str, str]] = ["Hi"]
    for name, inside in re.findall(r'<｜DSML｜invoke name="(.*?)">\n(.*?)</｜DSML｜invoke>', text, re.DOTALL):
        pattern = r'<｜DSML｜parameter name="(.*?)" string="(.*?)">(.*?)</｜DSML｜parameter>'
        said = re.findall(pattern, inside, re.DOTALL)
        found.append(
            (name, json.dumps({key: v if s == "true" else json.loads(v) for key, s, v in said}, ensure_ascii=False))
        )
    assert len(found) == len(values) + 1
    assert parsed("deepseek_v4", text) == found
