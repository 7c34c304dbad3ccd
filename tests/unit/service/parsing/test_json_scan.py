"""Where a value of JSON ends, and what a string of it says, in any cutting."""

import json

import pytest

from tailrace.service.parsing.json_scan import JsonValue, Unescaped

VALUES = [
    *('{"a": [1, {"b": "}]"}], "c": "\\\\"}', "[[], {}]", '"a\\"b\\\\"', '""', "12.5e3", "true", "null", "{}"),
    json.dumps({"text": 'a "quoted" \\ {[', "n": [1, [2, [3]]], "\u00e9": "\U0001f600"}),
]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("rest", [",", "}", ' "x"', "]]"])
def test_the_end_of_a_value_is_found_in_any_cutting(value: str, rest: str) -> None:
    for place in range(len(value) + 1):
        scanned = JsonValue(value[0])
        end = scanned.end(value[:place]) if place else None
        if end is None:
            end = scanned.end((value + rest)[place:])
            assert end is not None
            end += place
        assert end == len(value)


def test_a_string_that_is_open_is_known() -> None:
    value = JsonValue("{")
    seen = []
    for character in '{"a\\"": 1}':
        value.end(character)
        seen.append(value.is_in_string)
    assert seen == [False, True, True, True, True, False, False, False, False, False]


@pytest.mark.parametrize(
    "text", ["plain", 'q"\\/\b\f\n\r\t', "\u00e9\u2028", "\U0001f600\U0001f601", "\\u0041", "\\\\ud83d"]
)
def test_a_string_says_what_json_says_in_any_cutting(text: str) -> None:
    for inside in (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
        for place in range(len(inside) + 1):
            unescaped = Unescaped()
            assert unescaped.feed(inside[:place]) + unescaped.feed(inside[place:]) + unescaped.finish() == text
        one_by_one = Unescaped()
        assert "".join(map(one_by_one.feed, inside)) + one_by_one.finish() == text


@pytest.mark.parametrize(
    "inside", ["\\x", "\\u12g", "\\ud83d", "\\ude00", "\\ud83d\\u0041x", "\\", "\\u00", "\\ud83d\\ud8"]
)
def test_what_is_no_escape_stays_as_it_is(inside: str) -> None:
    whole, one_by_one = Unescaped(), Unescaped()
    expected = inside.replace("\\u0041", "A")
    assert whole.feed(inside) + whole.finish() == expected
    assert "".join(map(one_by_one.feed, inside)) + one_by_one.finish() == expected
