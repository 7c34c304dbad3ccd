"""Calls that are bare objects."""

import json

import pytest

from tailrace.service.parsing.segments import AnswerPiece, CallBegins, CallGoesOn
from tailrace.service.parsing.tools import call_stage
from tests.support.calls import cut_every_way, parsed

OSLO = '{"city": "Oslo"}'
F = f'{{"name": "f", "parameters": {OSLO}}}'
G = '{"name": "g", "parameters": {}}'
TAG = "<|python_tag|>"

TEXTS: dict[str, tuple[str, list[str | tuple[str, str]]]] = {
    "one call": (F, [("f", OSLO)]),
    "behind the token": (TAG + F, [("f", OSLO)]),
    "two calls": (f"{F}; {G}", [("f", OSLO), ("g", "{}")]),
    "two lines": (f" \n{F}\n{G}\n", [("f", OSLO), ("g", "{}")]),
    "the token twice": (f"{TAG}{F}{TAG}{G}", [("f", OSLO), ("g", "{}")]),
    "arguments": ('{"name": "f", "arguments": {}}', [("f", "{}")]),
    "a type": ('{"type": "function", "name": "f", "parameters": {}}', [("f", "{}")]),
    "parameters first": ('{"parameters": {"a": 1}, "name": "f"}', [("f", '{"a": 1}')]),
    "text behind": (f"{F}\nSo.\n", [("f", OSLO), "So.\n"]),
    "text before": (f"So: {F}", [f"So: {F}"]),
    "text before the token": (f"So: {TAG}{F}", ["So: ", ("f", OSLO)]),
    "an answer in JSON": (' {"answer": 42}\n', [' {"answer": 42}\n']),
    "an answer with a name": ('{"name": "Ann", "age": 3}', ['{"name": "Ann", "age": 3}']),
    "an answer that is only a name": ('{"name": "Ann"}', ['{"name": "Ann"}']),
    "a call and JSON": (f'{F}; {{"a": 1}}', [("f", OSLO), '{"a": 1}']),
    "the token in a key": (f'{{"name": "f", "{TAG}\n"', ['{"name": "f", ""']),
    "Python": (f"{TAG}print(1)", ["print(1)"]),
    "a list": (f"[{F}]", [f"[{F}]"]),
    "cut in the arguments": (F[:-4], [("f", '{"city": "Osl')]),
    "cut in the name": ('\n{"name": "f', ['\n{"name": "f']),
    "cut in the token": ("<|python", ["<|python"]),
    "only white space": (" \n", [" \n"]),
    "too much white space": (" " * 257 + F, [" " * 257 + F]),
    "the most white space": (" " * 256 + F, [("f", OSLO)]),
}


@pytest.mark.parametrize(("text", "parts"), TEXTS.values(), ids=TEXTS)
def test_calls_and_text_in_any_cutting(text: str, parts: list[str | tuple[str, str]]) -> None:
    assert parsed("llama3", text) == parts
    cut_every_way("llama3", text)


def test_nothing_waits_that_is_decided() -> None:
    stage = call_stage("llama3")
    assert stage.feed(' {"name": "f", "para') == []
    assert stage.num_held == 20
    assert stage.feed('meters": {') == [CallBegins(0, "f"), CallGoesOn(0, "{")]
    assert stage.feed('"a": 1}') == [CallGoesOn(0, '"a": 1}')]
    assert stage.feed("}; ") == []
    assert stage.num_held == 0


def test_an_answer_in_json_comes_out_at_the_first_key_that_no_call_has() -> None:
    stage = call_stage("llama3")
    assert stage.feed('{"a') == []
    assert stage.feed("n") == [AnswerPiece("{"), AnswerPiece('"an')]
    assert stage.feed('swer": {"name": "f"') == [AnswerPiece('swer": {"name": "f"')]


def test_a_parse_of_the_whole_text_finds_the_same() -> None:
    calls = [{"name": f"f{i}", "parameters": {"a": i, "b": f'"{{{i}\\'}} for i in range(20)]
    text = "; ".join(map(json.dumps, calls))
    assert parsed("llama3", text) == [(call["name"], json.dumps(call["parameters"])) for call in calls]
