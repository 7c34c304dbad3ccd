"""What an answer must look like: two fields with one meaning, their bounds, and what they leave no room for."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tailrace.errors import InvalidRequest
from tailrace.frontends.output_format import (
    ResponseFormat,
    StructuredOutputs,
    check_obeyable,
    choice_format,
    grammar_format,
    output_format_of,
    regex_format,
)
from tailrace.frontends.tools import MAX_SCHEMA_BYTES
from tailrace.service.api import ANY_CALLS, OutputFormat, OutputKind, ToolChoice, ToolMode

SCHEMA = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"const": "ä"}}}
TEXT = '{"type":"object","properties":{"b":{"type":"integer"},"a":{"const":"ä"}}}'


def response(**fields: Any) -> OutputFormat | None:
    return output_format_of(msgspec.convert(fields, ResponseFormat), None)


def structured(**fields: Any) -> OutputFormat | None:
    return output_format_of(None, msgspec.convert(fields, StructuredOutputs))


def test_text_is_no_format() -> None:
    assert output_format_of(None, None) is None
    assert response(type="text") is None


def test_json_of_a_schema_or_of_none() -> None:
    assert response(type="json_object") == OutputFormat(OutputKind.JSON_OBJECT, param="response_format")
    wish = {"name": "answer", "schema": SCHEMA, "strict": True, "description": "d"}
    wanted = OutputFormat(OutputKind.JSON_SCHEMA, TEXT, param="response_format.json_schema.schema")
    assert response(type="json_schema", json_schema=wish) == wanted


@pytest.mark.parametrize("schema", [SCHEMA, json.dumps(SCHEMA)], ids=["object", "text"])
def test_a_schema_keeps_the_order_of_its_properties(schema: object) -> None:
    wanted = OutputFormat(OutputKind.JSON_SCHEMA, TEXT, param="structured_outputs.json")
    assert structured(json=schema) == wanted


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"json_object": True}, (OutputKind.JSON_OBJECT, "", ())),
        ({"regex": "[a-z]+"}, (OutputKind.REGEX, "[a-z]+", ())),
        ({"choice": ["yes", "no", "yes"]}, (OutputKind.CHOICE, "", ("yes", "no"))),
        ({"grammar": 'start: "a"', "json_object": False}, (OutputKind.GRAMMAR, 'start: "a"', ())),
    ],
)
def test_each_kind_of_structured_output_arrives(
    fields: dict[str, Any], wanted: tuple[OutputKind, str, tuple[str, ...]]
) -> None:
    name = next(iter(fields))
    kind, text, choices = wanted
    assert structured(**fields) == OutputFormat(kind, text, choices, f"structured_outputs.{name}")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"type": "json_schema"}, "response_format.json_schema"),
        ({"type": "json_schema", "json_schema": {"name": "a"}}, "response_format.json_schema.schema"),
        ({"type": "json_object", "json_schema": {"schema": {}}}, "response_format.json_schema"),
        (
            {"type": "json_schema", "json_schema": {"schema": {"const": "x" * MAX_SCHEMA_BYTES}}},
            "response_format.json_schema.schema",
        ),
    ],
)
def test_half_a_response_format_is_refused_with_its_place(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        response(**fields)
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "structured_outputs"),
        ({"json_object": False}, "structured_outputs"),
        ({"regex": "a", "json": {}}, "structured_outputs"),
        ({"json": "{"}, "structured_outputs.json"),
        ({"json": "[]"}, "structured_outputs.json"),
        ({"json": "[" * 100_000}, "structured_outputs.json"),
    ],
)
def test_structured_output_is_exactly_one_thing(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        structured(**fields)
    assert caught.value.param == param
    assert len(str(caught.value)) < 400


def test_two_fields_cannot_both_say_what_an_answer_looks_like() -> None:
    with pytest.raises(InvalidRequest, match="send one"):
        output_format_of(ResponseFormat("json_object"), StructuredOutputs(regex="a"))
    assert output_format_of(ResponseFormat("text"), StructuredOutputs(regex="a")) == regex_format(
        "a", "structured_outputs.regex"
    )


def test_formats_are_bounded_whatever_made_them() -> None:
    def refused(make: Callable[[Any, str], OutputFormat], given: object) -> str | None:
        with pytest.raises(InvalidRequest) as caught:
            make(given, "p")
        return caught.value.param

    assert refused(regex_format, "") == "p"
    assert refused(regex_format, "a" * 20_000) == "p"
    assert refused(grammar_format, "a" * 300_000) == "p"
    assert refused(choice_format, []) == "p"
    assert refused(choice_format, ["a"] * 1025) == "p"
    assert refused(choice_format, ["a", ""]) == "p[1]"


def test_a_format_says_where_an_answer_begins_and_ends() -> None:
    output_format = OutputFormat(OutputKind.JSON_OBJECT)
    check_obeyable(output_format, ANY_CALLS)
    check_obeyable(None, ANY_CALLS, min_tokens=3, ignore_eos=True, echo=True)
    for wish in ({"min_tokens": 1}, {"ignore_eos": True}, {"echo": True}):
        for args in ((output_format, ANY_CALLS), (None, ToolChoice(ToolMode.REQUIRED))):
            with pytest.raises(InvalidRequest) as caught:
                check_obeyable(*args, **wish)
            assert caught.value.param == next(iter(wish))
            assert caught.value.code == "unsupported_parameter"
