"""Calls between DeepSeek's control tokens."""

import re

import pytest

from tailrace.service.parsing.segments import AnswerPiece, CallBegins, CallGoesOn
from tailrace.service.parsing.tools import call_stage
from tests.support.calls import cut_every_way, parsed

CALLS, END_CALLS = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
OSLO, ONE = '{"city": "Oslo"}', '{"a": 1}'
CALL, END_CALL, SEP = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"


def v3(name: str, arguments: str) -> str:
    return f"{CALL}function{SEP}{name}\n```json\n{arguments}\n```{END_CALL}"


def v31(name: str, arguments: str) -> str:
    return f"{CALL}{name}{SEP}{arguments}{END_CALL}"


V3_TEXTS = {
    "two calls": (
        f"Let me look.{CALLS}{v3('weather', OSLO)}\n{v3('time', '{}')}{END_CALLS}",
        ["Let me look.", ("weather", OSLO), ("time", "{}")],
    ),
    "one call, as the model's template leaves it": (f"{CALLS}{v3('f', ONE)}", [("f", ONE)]),
    "cut behind the fence": (f"{CALLS}{CALL}function{SEP}f\n```json\n{{}}\n```", [("f", "{}")]),
    "cut in the arguments": (f'{CALLS}{CALL}function{SEP}f\n```json\n{{"a": "x', [("f", '{"a": "x')]),
    "cut in the opening fence": (f"{CALLS}{CALL}function{SEP}f\n```js", [("f", "")]),
    "cut in the name": (f"A{CALLS}{CALL}function{SEP}wea", ["Afunctionwea"]),
    "cut in a token": (f"A{CALLS}{CALL[:-3]}", ["A"]),
    "no fence": (f"{CALL}function{SEP}f\n{{}}{END_CALL}", [("f", "{}")]),
    "no fence at the end": (f"{CALL}function{SEP}f\n```json\n{{}}{END_CALL}{END_CALLS}", [("f", "{}")]),
    "a fence of no language": (f"{CALL}function{SEP}f\n```\n{{}}\n```{END_CALL}", [("f", "{}")]),
    "a fence in the line of the arguments": (f"{CALL}function{SEP}f\n```json\n{{}}```{END_CALL}", [("f", "{}")]),
    "space behind the fence": (f"{CALL}function{SEP}f\n```json\n{{}}\n``` \n {END_CALL}", [("f", "{}")]),
    "text behind the fence": (f"{CALL}function{SEP}f\n```json\n{{}}\n```\nDone.{END_CALL}", [("f", "{}"), "Done."]),
    "a fence in a string": (v3("f", '{"a": "```py\\nx\\n```"}'), [("f", '{"a": "```py\\nx\\n```"}')]),
    "another type": (f"{CALL}tool{SEP}f\n```json\n{{}}\n```{END_CALL}", [("f", "{}")]),
    "no separator": (f"{CALL}function f {{}}{END_CALL} then", ["function f {}then"]),
    "arguments where the name should be": (f"{CALL}f{SEP}{{}}{END_CALL}", ["f{}"]),
    "no name": (f"{CALL}function{SEP}\n```json\n{{}}\n```{END_CALL}", ["function```json\n{}\n```"]),
    "text behind the calls": (f"{CALLS}{v3('f', '{}')}{END_CALLS}\n\nSo.\n", [("f", "{}"), "So.\n"]),
    "text between calls": (f"{v3('f', '{}')}\nand \n{v3('g', '1')}", [("f", "{}"), "and \n", ("g", "1")]),
    "not ended before the next": (
        f"{CALL}function{SEP}f\n```json\n{{}}\n{v3('g', '{}')}",
        [("f", "{}\n"), ("g", "{}")],
    ),
    "tokens that belong nowhere": (f"a {END_CALL}b{SEP} c{END_CALLS}", ["a bc"]),
    "no call": ("1 < 2 <｜tool", ["1 < 2 <｜tool"]),
}
V31_TEXTS = {
    "two calls": (
        f"Let me look.{CALLS}{v31('weather', OSLO)}{v31('time', '{}')}{END_CALLS}",
        ["Let me look.", ("weather", OSLO), ("time", "{}")],
    ),
    "line ends between": (f"{CALLS}\n{v31('f', '{}')}\n{v31('g', '{}')}\n{END_CALLS}\n", [("f", "{}"), ("g", "{}")]),
    "cut in the name": (f"{CALLS}{CALL}weath", ["weath"]),
    "cut behind the name": (f"{CALLS}{CALL}weather{SEP}", [("weather", "")]),
    "cut in the arguments": (f"{CALLS}{CALL}weather{SEP}{{<｜tool", [("weather", "{<｜tool")]),
    "no begin of the block": (v31("f", "{}"), [("f", "{}")]),
    "no end of the call": (f"{CALLS}{CALL}f{SEP}{{}}{END_CALLS}more", [("f", "{}"), "more"]),
    "a block in a block": (f"{CALLS}{CALL}f{SEP}{{}}{CALLS}{v31('g', '{}')}", [("f", "{}"), ("g", "{}")]),
    "no name": (f"{CALLS}{CALL} {SEP}{{}}{END_CALL}", ["{}"]),
    "no arguments": (f"{CALLS}{CALL}f{END_CALL}{END_CALLS}", ["f"]),
    "a separator in the arguments": (f"{CALL}f{SEP}{{{SEP}}}{END_CALL}", [("f", "{}")]),
    "the longest name": (v31("n" * 256, "{}"), [("n" * 256, "{}")]),
    "a name too long": (v31("n" * 257, "{}"), ["n" * 257 + "{}"]),
}
TEXTS = [
    *(pytest.param("deepseek_v3", *case, id=f"v3 {name}") for name, case in V3_TEXTS.items()),
    *(pytest.param("deepseek_v31", *case, id=f"v31 {name}") for name, case in V31_TEXTS.items()),
]


@pytest.mark.parametrize(("style", "text", "parts"), TEXTS)
def test_calls_and_text_in_any_cutting(style: str, text: str, parts: list[str | tuple[str, str]]) -> None:
    assert parsed(style, text) == parts
    cut_every_way(style, text)


def test_nothing_waits_that_is_decided() -> None:
    stage = call_stage("deepseek_v3")
    assert stage.feed("Hello <") == [AnswerPiece("Hello ")]
    assert stage.num_held == 1
    assert stage.feed("b> ") == [AnswerPiece("<b> ")]
    assert stage.feed(CALLS + CALL + "function" + SEP + "weather") == []
    assert stage.feed("\n") == [CallBegins(0, "weather")]
    assert stage.feed("```json\n") == []
    assert stage.num_held == 0
    assert stage.feed('{"city"') == [CallGoesOn(0, '{"city"')]
    assert stage.feed(': "Oslo"}\n') == [CallGoesOn(0, ': "Oslo"}')]
    assert stage.feed("```") == []
    assert stage.num_held == 0


def test_a_name_that_is_too_long_waits_no_longer() -> None:
    stage = call_stage("deepseek_v31")
    assert stage.feed(CALL + "n" * 256) == []
    assert stage.feed("n") == [AnswerPiece("n" * 257)]
    assert stage.num_held == 0


def test_a_parse_of_the_whole_text_finds_the_same() -> None:
    fenced = "".join(v3(f"f{i}", f'{{"a": {i}, "b": "x\\n{i}"}}') for i in range(20))
    found = re.findall(rf"{CALL}function{SEP}(.*?)\n```json\n(.*?)\n```{END_CALL}", fenced, re.DOTALL)
    assert parsed("deepseek_v3", fenced) == found
    plain = "".join(v31(f"f{i}", f'{{"a": {i}, "b": "x\\n{i}"}}') for i in range(20))
    found = re.findall(rf"{CALL}(.*?){SEP}(.*?){END_CALL}", plain, re.DOTALL)
    assert parsed("deepseek_v31", plain) == found
