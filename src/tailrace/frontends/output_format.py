"""What an answer must look like, as clients say it, as an `OutputFormat`. Whether it can be obeyed the service says.

Fields of bodies: `ResponseFormat` (OpenAI) and `StructuredOutputs` (vLLM), which `output_format_of` reads together. Of
other wire formats `json_format`, `schema_format`, `regex_format`, `choice_format` and `grammar_format` make one; each
checks its bounds. `check_obeyable` refuses what a format, or a call that must be, leaves no room for.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from tailrace.errors import InvalidRequest
from tailrace.frontends.tools import ToolName, schema_text
from tailrace.service.api import OutputFormat, OutputKind, ToolChoice, ToolMode

__all__ = [
    "JsonSchema",
    "ResponseFormat",
    "StructuredOutputs",
    "check_obeyable",
    "choice_format",
    "grammar_format",
    "json_format",
    "output_format_of",
    "regex_format",
    "schema_format",
]

_MAX_REGEX_CHARS = 16 << 10
_MAX_GRAMMAR_CHARS = 256 << 10
_MAX_CHOICES = 1024
_MAX_CHOICE_CHARS = 4096

Regex = Annotated[str, Meta(min_length=1, max_length=_MAX_REGEX_CHARS)]
Grammar = Annotated[str, Meta(min_length=1, max_length=_MAX_GRAMMAR_CHARS)]
Choice = Annotated[str, Meta(min_length=1, max_length=_MAX_CHOICE_CHARS)]


class JsonSchema(Struct, forbid_unknown_fields=True, kw_only=True):
    """`name` and `description` are for the client's own bookkeeping. A schema is obeyed, `strict` or not."""

    schema: dict[str, Any] | None = None
    name: ToolName | None = None
    description: str | None = None
    strict: bool | None = None


class ResponseFormat(Struct, forbid_unknown_fields=True):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class StructuredOutputs(Struct, forbid_unknown_fields=True, kw_only=True):
    """Exactly one of them. `json` is a schema, or the text of one; a grammar is in the words of llguidance (Lark)."""

    json: dict[str, Any] | str | None = None
    json_object: bool | None = None
    regex: Regex | None = None
    choice: Annotated[list[Choice], Meta(min_length=1, max_length=_MAX_CHOICES)] | None = None
    grammar: Grammar | None = None


def output_format_of(response: ResponseFormat | None, structured: StructuredOutputs | None) -> OutputFormat | None:
    """What both fields ask for, if they do. Raises InvalidRequest for more than one wish, or half of one."""
    wished = None if response is None else _of_response(response)
    if structured is None:
        return wished
    if wished is not None:
        raise InvalidRequest(
            "response_format and structured_outputs both say what the answer looks like; send one",
            param="structured_outputs",
        )
    return _of_structured(structured)


def _of_response(wish: ResponseFormat, param: str = "response_format") -> OutputFormat | None:
    if wish.json_schema is not None and wish.type != "json_schema":
        raise InvalidRequest(
            f"{param}.json_schema goes with the type 'json_schema', not {wish.type!r}", param=f"{param}.json_schema"
        )
    if wish.type == "text":
        return None
    if wish.type == "json_object":
        return json_format(param)
    place = f"{param}.json_schema"
    if wish.json_schema is None:
        raise InvalidRequest(f"{place!r} is missing", param=place, code="missing_required_parameter")
    if wish.json_schema.schema is None:
        raise InvalidRequest(f"'{place}.schema' is missing", param=f"{place}.schema", code="missing_required_parameter")
    return schema_format(wish.json_schema.schema, f"{place}.schema")


def _of_structured(wish: StructuredOutputs, param: str = "structured_outputs") -> OutputFormat:
    given = [name for name in wish.__struct_fields__ if getattr(wish, name) not in (None, False)]
    if len(given) != 1:
        said = " and ".join(given) or "none"
        names = ", ".join(wish.__struct_fields__)
        raise InvalidRequest(f"{param} must have exactly one of {names}, and has {said}", param=param)
    place = f"{param}.{given[0]}"
    if wish.json is not None:
        return schema_format(_parsed(wish.json, place), place)
    if wish.regex is not None:
        return regex_format(wish.regex, place)
    if wish.choice is not None:
        return choice_format(wish.choice, place)
    return json_format(place) if wish.grammar is None else grammar_format(wish.grammar, place)


def _parsed(schema: dict[str, Any] | str, param: str) -> dict[str, Any]:
    if not isinstance(schema, str):
        return schema
    try:
        return msgspec.json.decode(schema, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(f"{param} is no JSON schema: {str(error)[:200]}", param=param) from None


def json_format(param: str) -> OutputFormat:
    """Any JSON object."""
    return OutputFormat(OutputKind.JSON_OBJECT, param=param)


def schema_format(schema: Mapping[str, Any], param: str) -> OutputFormat:
    """JSON that a schema allows. Raises InvalidRequest for a schema that is too large."""
    return OutputFormat(OutputKind.JSON_SCHEMA, schema_text(schema, param), param=param)


def regex_format(pattern: str, param: str) -> OutputFormat:
    """What a regular expression matches, all of it."""
    return OutputFormat(OutputKind.REGEX, _bounded(pattern, _MAX_REGEX_CHARS, param), param=param)


def choice_format(choices: Sequence[str], param: str) -> OutputFormat:
    """One of these texts."""
    if not 0 < len(choices) <= _MAX_CHOICES:
        raise InvalidRequest(f"{param} has {len(choices):,} texts; it must have 1 to {_MAX_CHOICES:,}", param=param)
    texts = dict.fromkeys(_bounded(text, _MAX_CHOICE_CHARS, f"{param}[{i}]") for i, text in enumerate(choices))
    return OutputFormat(OutputKind.CHOICE, choices=tuple(texts), param=param)


def grammar_format(grammar: str, param: str) -> OutputFormat:
    """What a grammar in the words of llguidance derives."""
    return OutputFormat(OutputKind.GRAMMAR, _bounded(grammar, _MAX_GRAMMAR_CHARS, param), param=param)


def _bounded(text: str, limit: int, param: str) -> str:
    if not 0 < len(text) <= limit:
        raise InvalidRequest(f"{param} has {len(text):,} characters; it must have 1 to {limit:,}", param=param)
    return text


def check_obeyable(
    output_format: OutputFormat | None,
    choice: ToolChoice,
    *,
    min_tokens: int = 0,
    ignore_eos: bool = False,
    echo: bool = False,
) -> None:
    """Raises InvalidRequest for what cannot be had together with a format, or with a call that must be.

    Such an answer ends where its form is complete, and begins where it does.
    """
    if output_format is not None:
        reason = f"{output_format.param} says where the answer begins and ends"
    elif choice.mode is ToolMode.REQUIRED:
        reason = "tool_choice wants a call, which says where the answer ends"
    else:
        return
    for name, is_wanted in (("min_tokens", min_tokens > 0), ("ignore_eos", ignore_eos), ("echo", echo)):
        if is_wanted:
            raise InvalidRequest(f"{name!r} is refused here: {reason}", param=name, code="unsupported_parameter")
