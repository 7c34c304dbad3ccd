"""Calls of JSON between tags."""

import re

import pytest

from tailrace.service.parsing.segments import AnswerPiece, CallBegins, CallGoesOn
from tailrace.service.parsing.tools import call_stage
from tests.support.calls import cut_every_way, parsed

OSLO = '{"city": "Oslo"}'


def call(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def inside(text: str) -> str:
    return f"<tool_call>{text}</tool_call>"


TEXTS: dict[str, tuple[str, list[str | tuple[str, str]]]] = {
    "two calls": (
        f"Let me look.\n{call('weather', OSLO)}\n{call('time', '{}')}",
        ["Let me look.", ("weather", OSLO), ("time", "{}")],
    ),
    "arguments first": (inside('{"arguments": {"a": [1, "}"]}, "name": "f"}'), [("f", '{"a": [1, "}"]}')]),
    "arguments in a string": (
        inside(r'{"name": "f", "arguments": "{\"a\": \"\\n\u00e9\"}"}'),
        [("f", r'{"a": "\né"}')],
    ),
    "a string that ends in half a character": (inside(r'{"name": "f", "arguments": "\ud83d"}'), [("f", r"\ud83d")]),
    "a character of two escapes": (inside(r'{"name": "f", "arguments": "\ud83d\ude00"}'), [("f", "😀")]),
    "a string cut in an escape": (r'<tool_call>{"name": "f", "arguments": "{\"a\u00', [("f", r'{"a\u00')]),
    "arguments that are no object": (inside('{"name": "f", "arguments": null}'), [("f", "null")]),
    "a number": (inside('{"name": "f", "arguments": 12.5 }'), [("f", "12.5")]),
    "no arguments": (inside('{"name": "f"}'), [("f", "")]),
    "other members": (inside('{"id": "x\\"}", "name": "f", "n": [1], "arguments": {}, "last": 1}'), [("f", "{}")]),
    "an escaped name": (inside(r'{"name": "\u0066\"", "arguments": {}}'), [('f"', "{}")]),
    "a tag in a string": (call("f", '{"a": "</tool_call> <tool_call>"}'), [("f", '{"a": "</tool_call> <tool_call>"}')]),
    "a string that never ends": (
        '<tool_call>\n{"name": "f", "arguments": {"a": "x}\n</tool_call>\n' + call("g", "{}"),
        [("f", '{"a": "x}\n'), ("g", "{}")],
    ),
    "a brace too few": ('<tool_call>{"name": "f", "arguments": {}\n</tool_call>', [("f", "{}")]),
    "a brace too many": (inside('{"name": "f", "arguments": {}}}\n'), [("f", "{}")]),
    "arguments that do not end": (inside('{"name": "f", "arguments": {"a": [1}'), [("f", '{"a": [1}')]),
    "no end tag": (
        '<tool_call>\n{"name": "f", "arguments": {}}\n' + call("g", "{}"),
        [("f", "{}"), ("g", "{}")],
    ),
    "a tag where a key should be": (
        '<tool_call>{"name": "f", "arguments": {' + call("g", "1"),
        [("f", "{"), ("g", "1")],
    ),
    "a tag in a key": ('<tool_call>{"name": "f", "arguments": {"<tool_call> x', [("f", '{"<tool_call> x')]),
    "cut in the arguments": ('<tool_call>{"name": "f", "arguments": {"a": "</to', [("f", '{"a": "</to')]),
    "cut behind the name": ('<tool_call>{"name": "f", "argu', [("f", "")]),
    "cut in the name": ('A\n<tool_call>\n{"name": "we', ['A{"name": "we']),
    "cut in the end tag": (call("f", "{}")[:-3], [("f", "{}")]),
    "cut in the tag": ("A\n<tool_", ["A\n<tool_"]),
    "single quotes": (inside("{'name': 'f', 'arguments': {}}"), ["{'name': 'f', 'arguments': {}}"]),
    "no object": (inside("f(1)") + " so", ["f(1)so"]),
    "no name": (inside('{"arguments": {}}'), ['{"arguments": {}}']),
    "a name that is none": (inside('{"name": {"x": 1}, "arguments": {}}'), ['{"name": {"x": 1}, "arguments": {}}']),
    "half a character for a name": (inside(r'{"name": "\ud83d"}'), [r'{"name": "\ud83d"}']),
    "wrong between name and arguments": (inside('{"name": "f", arguments: {}}'), [("f", ", arguments: {}}")]),
    "wrong behind the arguments": (inside('{"name": "f", "arguments": {} so}'), [("f", "{}"), "so}"]),
    "arguments twice": (
        inside('{"name": "f", "arguments": {}, "arguments": 1}'),
        [("f", "{}"), ', "arguments": 1}'],
    ),
    "text between calls": (f"{call('f', '{}')}\nand\n{call('g', '1')}\n", [("f", "{}"), "and", ("g", "1")]),
    "tags in a text that is no call": ("a </tool_call> b", ["a b"]),
    "a key too long, with the beginning of a tag": (
        '<tool_call>{"' + "k" * 254 + "<tool_k",
        ['{"' + "k" * 254 + "<tool_k"],
    ),
    "a key too long for a tag in it": ('<tool_call>{"' + "k" * 250 + "<tool_call>{", ['{"' + "k" * 250 + "{"]),
    "a name too long": (inside('{"name": "' + "n" * 257 + '"}'), ['{"name": "' + "n" * 257 + '"}']),
}


@pytest.mark.parametrize(("text", "parts"), TEXTS.values(), ids=TEXTS)
def test_calls_and_text_in_any_cutting(text: str, parts: list[str | tuple[str, str]]) -> None:
    assert parsed("hermes", text) == parts
    cut_every_way("hermes", text)


def test_nothing_waits_that_is_decided() -> None:
    stage = call_stage("hermes")
    assert stage.feed("Hello <") == [AnswerPiece("Hello ")]
    assert stage.feed("b>\n") == [AnswerPiece("<b>")]
    assert stage.num_held == 1
    assert stage.feed('<tool_call>\n{"name": "weather') == []
    assert stage.feed('"') == [CallBegins(0, "weather")]
    assert stage.feed(', "arguments": {"city"') == [CallGoesOn(0, '{"city"')]
    assert stage.feed(': "a <') == [CallGoesOn(0, ': "a '), CallGoesOn(0, "<")]
    assert stage.feed('"} ') == [CallGoesOn(0, '"}')]
    assert stage.feed("}") == []
    assert stage.num_held == 0


def test_what_is_no_call_is_text_from_the_character_that_shows_it() -> None:
    stage = call_stage("hermes")
    assert stage.feed('<tool_call>{"name": ') == []
    assert stage.feed("1") == [AnswerPiece('{"name": '), AnswerPiece("1")]


def test_arguments_before_the_name_wait_within_bounds() -> None:
    head = '{"arguments": "'
    fits = call_stage("hermes")
    size = (1 << 16) - len(head + '", "name": "f"')
    assert fits.feed("<tool_call>" + head + "x" * size + '", "name": "f"') == [
        CallBegins(0, "f"),
        CallGoesOn(0, "x" * size),
    ]
    too_long = call_stage("hermes")
    too_long.feed("<tool_call>" + head)
    held = []
    for _ in range(200):
        too_long.feed("x" * 1000)
        held.append(too_long.num_held)
    assert max(held) <= 1 << 16
    assert held[-1] == 0


def test_a_parse_of_the_whole_text_finds_the_same() -> None:
    text = "\n".join(call(f"f{i}", f'{{"a": {i}, "b": "x\\n{i}"}}') for i in range(20))
    pattern = r'<tool_call>\n\{"name": "(.*?)", "arguments": (.*?)\}\n</tool_call>'
    assert parsed("hermes", text) == re.findall(pattern, text, re.DOTALL)
