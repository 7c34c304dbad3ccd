"""From what a client wants an answer to look like to the grammar that the engine follows."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tailrace.errors import GuideError, InvalidRequest
from tailrace.guides.endings import with_endings
from tailrace.guides.multiples import MAX_MULTIPLE, grammar_multiple, schema_multiple
from tailrace.guides.nesting import MAX_DEPTH, MAX_LEVELS, depth, grammar_levels, schema_levels
from tailrace.guides.reserve import Reserve
from tailrace.guides.vocabulary import GuideVocabulary
from tailrace.guides.words import (
    FREE_TEXT,
    fixed_texts,
    lark_of,
    lark_texts,
    lazy_until,
    literal,
    regex_terminal,
    renamed,
    schema_rule,
    token,
)
from tailrace.service.formats.call_grammar import CALL_STYLES, CallGrammar, CallRules, call_rules
from tailrace.service.formats.format import ReasoningTags
from tailrace.service.output_format import OutputFormat, OutputKind
from tailrace.service.tools import ANY_CALLS, Tool, ToolChoice, ToolMode
from tailrace.types import Guide

__all__ = ["GuideMaker", "Wanted", "wants_guide"]

_MAX_CHARACTERS = 1 << 18  # of a schema, a grammar, or all choices
_MAX_EXPRESSION_CHARACTERS = 1 << 14
_MAX_CHOICES = 1024  # of twice as many that begin alike, llguidance says that they are too complex
_MAX_ENDINGS = 32  # that are tried wherever an end of the answer is looked for
_MAX_CLOSING_TOKENS = 4096  # that are looked for when max_tokens are too few, to say how many it takes

_LINE_ENDS = r"/\n{1,4}/"  # behind the reasoning they are of the markup


@dataclass(frozen=True, slots=True)
class Wanted:
    """What bears on the form of one answer. `opened` is the part of it that the prompt has already.

    `reasoning` and `tool_style` are those of the model's format; None and empty where it has none.
    """

    output_format: OutputFormat | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ANY_CALLS
    reasoning: ReasoningTags | None = None
    tool_style: str = ""
    opened: str = ""


def wants_guide(wanted: Wanted) -> bool:
    """Whether the answer has to follow a grammar at all."""
    return wanted.output_format is not None or _has_bound_calls(wanted)


class GuideMaker:
    """`special_id` gives the id of a text that is one special token. Not for an event loop: it compiles grammars."""

    def __init__(self, vocabulary: GuideVocabulary, special_id: Callable[[str], int | None]) -> None:
        self._vocabulary = vocabulary
        self._special_id = special_id

    def make(self, wanted: Wanted, max_tokens: int) -> Guide | None:
        """Raises InvalidRequest for a form that cannot be followed, or that `max_tokens` have no room for."""
        if not wants_guide(wanted):
            return None
        try:
            return self._checked(wanted, max_tokens)
        except GuideError as error:
            loose = replace(wanted, tools=tuple(map(_without_schema, wanted.tools)))
            if loose == wanted or wanted.output_format is not None:
                raise InvalidRequest(f"{_param(wanted)}: {error}", param=_param(wanted)) from error
        try:
            return self._checked(loose, max_tokens)
        except GuideError as error:
            raise InvalidRequest(f"{_param(wanted)}: {error}", param=_param(wanted)) from error

    def _checked(self, wanted: Wanted, max_tokens: int) -> Guide:
        grammar = _Answer(wanted, self._special_id).grammar()
        reserve = Reserve(self._vocabulary, grammar)
        if reserve.look(max_tokens) is None:
            _refuse_short(max_tokens, reserve.shortest(max(_MAX_CLOSING_TOKENS, max_tokens)))
        return Guide(grammar)


class _Answer:
    """The grammar of one answer: perhaps reasoning, then what is wanted."""

    def __init__(self, wanted: Wanted, special_id: Callable[[str], int | None]) -> None:
        self._wanted = wanted
        self._special_id = special_id
        self._rules: list[str] = []
        self._endings: list[str] = []

    def grammar(self) -> str:
        reasoning, begun = self._reasoning()
        body = self._body(begun)
        self._rules.insert(0, f"start: {reasoning} {body}")
        return with_endings("\n".join(self._rules), tuple(self._endings))

    def _reasoning(self) -> tuple[str, str]:
        """What comes in front of the answer, and what of the answer itself the prompt has."""
        tags, opened = self._wanted.reasoning, self._wanted.opened
        if tags is None:
            return "", opened
        if tags.end in opened:
            return "", opened.rpartition(tags.end)[2]
        if opened.lstrip().startswith(tags.begin):
            return f"{self._thought(tags)} line_ends?", ""
        if opened.strip():
            return "", opened
        self._rules.append(f"thinking: {self._mark(tags.begin)} {self._thought(tags)} line_ends?")
        return "thinking?", ""

    def _thought(self, tags: ReasoningTags) -> str:
        self._rules.append(f"line_ends: {_LINE_ENDS}")
        special = self._special_id(tags.end)
        if special is not None:
            self._rules.append(f"thought: {FREE_TEXT} {token(special)}")
        else:
            self._rules.append(f"thought[lazy]: {lazy_until(tags.end)}")
            self._endings.append(tags.end)
        return "thought"

    def _mark(self, tag: str) -> str:
        special = self._special_id(tag)
        return literal(tag) if special is None else token(special)

    def _body(self, begun: str) -> str:
        wanted = self._wanted
        if not _has_bound_calls(wanted):
            return self._format(begun)
        grammar = CallGrammar(_callable_tools(wanted), self._special_id, wanted.tool_choice.is_parallel)
        calls = call_rules(wanted.tool_style, grammar)
        self._rules += calls.rules
        self._endings += calls.endings
        opening = grammar.markup(calls.opening)
        gap = f"{literal(calls.gap)}?" if calls.gap else ""
        if wanted.tool_choice.mode is ToolMode.REQUIRED:
            return self._required(calls, f"{gap} {opening}", begun)
        if wanted.output_format is not None:
            self._rules += [f"calls: {gap} {opening} {calls.begun}", f"answer: {self._format(begun)}"]
            return "(answer | calls)"
        _refuse_begun(begun, "tools")
        return self._optional(calls, opening)

    def _required(self, calls: CallRules, opening: str, begun: str) -> str:
        if begun.strip() and begun.strip() != calls.opening:
            _refuse_begun(begun, "tool_choice")
        self._rules.append(f"calls: {'' if begun.strip() else opening} {calls.begun}")
        return "calls"

    def _optional(self, calls: CallRules, opening: str) -> str:
        """Any text, then calls, if any."""
        if not calls.opening:  # calls begin with the answer, by a brace
            self._rules += [f"calls: {calls.begun}", r"free: /([^{ \t\r\n](.|\n)*)?/"]
            return "(free | calls)"
        self._rules.append(f"free: {FREE_TEXT}")
        if opening.startswith("<["):
            self._rules.append(f"calls: {opening} {calls.begun}")
            return "free calls?"
        plain, is_mixed, rest = opening.partition(" <[")
        text = json.loads(plain)
        self._rules += [
            f"called[lazy]: {lazy_until(text)}" if not is_mixed else rf"called: /(.|\n)*{text}/",
            f"calls: called {is_mixed.strip() + rest if is_mixed else ''} {calls.begun}",
        ]
        return "(free | calls)"

    def _format(self, begun: str) -> str:
        wanted = self._wanted.output_format
        assert wanted is not None
        _refuse_begun(begun, wanted.param)
        return _FORMATS[wanted.kind](self, wanted)

    def json_object(self, _wanted: OutputFormat) -> str:
        return schema_rule({"type": "object"})

    def json_schema(self, wanted: OutputFormat) -> str:
        schema = _schema(wanted)
        patterns = _patterns(schema)[:_MAX_ENDINGS]
        self._endings += [text for pattern in patterns for text in fixed_texts(pattern)][:_MAX_ENDINGS]
        return schema_rule(schema)

    def regex(self, wanted: OutputFormat) -> str:
        _check_size(wanted, len(wanted.text), _MAX_EXPRESSION_CHARACTERS)
        self._endings += fixed_texts(wanted.text)
        self._rules.append(f"answer_text: {regex_terminal(wanted.text)}")
        return "answer_text"

    def choice(self, wanted: OutputFormat) -> str:
        if not wanted.choices or len(wanted.choices) > _MAX_CHOICES:
            raise InvalidRequest(
                f"{wanted.param}: {len(wanted.choices)} choices are too {'many' if wanted.choices else 'few'}: give "
                f"1 to {_MAX_CHOICES}",
                param=wanted.param,
            )
        _check_size(wanted, sum(map(len, wanted.choices)), _MAX_CHARACTERS)
        self._rules.append("choice: " + " | ".join(map(literal, wanted.choices)))
        return "choice"

    def lark(self, wanted: OutputFormat) -> str:
        _check_size(wanted, len(wanted.text), _MAX_CHARACTERS)
        try:
            grammar = lark_of(wanted.text)
        except ValueError as error:
            raise InvalidRequest(f"{wanted.param}: no GBNF grammar: {error}", param=wanted.param) from error
        if grammar_levels(grammar) > MAX_LEVELS:
            raise InvalidRequest(
                f"{wanted.param}: the grammar has more than {MAX_LEVELS} rules and brackets", param=wanted.param
            )
        _check_multiple(grammar_multiple(grammar), wanted.param)
        self._endings += lark_texts(grammar)
        self._rules.append(renamed(grammar, "answer_start"))
        return "answer_start"


_FORMATS: Mapping[OutputKind, Callable[[_Answer, OutputFormat], str]] = {
    OutputKind.JSON_OBJECT: _Answer.json_object,
    OutputKind.JSON_SCHEMA: _Answer.json_schema,
    OutputKind.REGEX: _Answer.regex,
    OutputKind.CHOICE: _Answer.choice,
    OutputKind.GRAMMAR: _Answer.lark,
}


def _has_bound_calls(wanted: Wanted) -> bool:
    """Whether calls are part of the grammar; where they are not, and the answer has no format, all is free."""
    mode = wanted.tool_choice.mode
    if not wanted.tools or mode is ToolMode.NONE:
        return False
    if mode is ToolMode.REQUIRED:
        _check_style(wanted)
        return True
    is_bound = wanted.output_format is not None or any(tool.strict for tool in wanted.tools)
    if is_bound:
        _check_style(wanted)
    return is_bound


def _check_style(wanted: Wanted) -> None:
    if wanted.tool_style not in CALL_STYLES:
        raise InvalidRequest(
            "calls can be neither demanded nor bound to their schemas: no style of calls is known of this model; let "
            "tool_choice be auto, without strict tools or a format",
            param=_param(wanted),
        )
    if wanted.output_format is None:
        return
    if wanted.tool_choice.mode is ToolMode.REQUIRED:
        raise InvalidRequest(
            f"{wanted.output_format.param} says what an answer is, but tool_choice demands a call: leave one out",
            param=wanted.output_format.param,
        )
    if wanted.tool_style == "llama3":
        raise InvalidRequest(
            f"{wanted.output_format.param} does not go with tools on this model, whose calls are JSON as answers are: "
            "leave one out, or let tool_choice be none",
            param=wanted.output_format.param,
        )


def _callable_tools(wanted: Wanted) -> Sequence[Tool]:
    """Those that may be called; with tool_choice auto, arguments of tools that are not strict are any object."""
    name = wanted.tool_choice.name
    tools = [tool for tool in wanted.tools if name is None or tool.name == name]
    if not tools:
        raise InvalidRequest(f"tool_choice names {str(name)[:64]!r}, which is none of the tools", param="tool_choice")
    if wanted.tool_choice.mode is not ToolMode.REQUIRED:
        tools = [_without_schema(tool) for tool in tools]
    for tool in tools:
        _check_schema(tool.parameters, "tools")
    return tools


def _without_schema(tool: Tool) -> Tool:
    return tool if tool.strict else replace(tool, parameters={})


def _schema(wanted: OutputFormat) -> Mapping[str, Any]:
    _check_size(wanted, len(wanted.text), _MAX_CHARACTERS)
    try:
        schema = json.loads(wanted.text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{wanted.param}: the schema is no JSON: {error}", param=wanted.param) from error
    if not isinstance(schema, dict):
        raise InvalidRequest(f"{wanted.param}: the schema must be an object", param=wanted.param)
    _check_schema(schema, wanted.param)
    return schema


def _check_schema(schema: Mapping[str, Any], param: str) -> None:
    """Raises InvalidRequest for a schema that goes too deep to be compiled."""
    if depth(schema) > MAX_DEPTH:
        raise InvalidRequest(f"{param}: the schema is nested more than {MAX_DEPTH} deep: use $defs", param=param)
    if schema_levels(schema) > MAX_LEVELS:
        raise InvalidRequest(
            f"{param}: the schema and what its references lead to are nested more than {MAX_LEVELS} deep, all "
            "together: use fewer of them",
            param=param,
        )
    _check_multiple(schema_multiple(schema), param)


def _check_multiple(multiple: int, param: str) -> None:
    if multiple > MAX_MULTIPLE:
        raise InvalidRequest(
            f"{param}: what multipleOf asks for, all together, is more than {MAX_MULTIPLE:,}: leave it out", param=param
        )


def _patterns(schema: Any) -> list[str]:
    """The regular expressions of its texts, wherever in it."""
    found: list[str] = []
    parts = [schema]
    while parts:
        part = parts.pop()
        if isinstance(part, dict) and isinstance(part.get("pattern"), str):
            found.append(part["pattern"])
        parts += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return found


def _check_size(wanted: OutputFormat, num_characters: int, most: int) -> None:
    if num_characters > most:
        raise InvalidRequest(
            f"{wanted.param}: the {wanted.kind} has {num_characters} characters, more than {most}", param=wanted.param
        )


def _refuse_begun(begun: str, param: str) -> None:
    if begun.strip():
        raise InvalidRequest(
            f"{param}: an answer that the prompt has begun already cannot be given a form: leave the last message out",
            param=param,
        )


def _refuse_short(max_tokens: int, shortest: int | None) -> None:
    needed = (
        "no end of an answer in this format was found"
        if shortest is None
        else (f"the shortest answer of this format takes about {shortest}")
    )
    raise InvalidRequest(f"max_tokens is {max_tokens}; {needed}: ask for more", param="max_tokens")


def _param(wanted: Wanted) -> str:
    if wanted.output_format is not None:
        return wanted.output_format.param
    return "tool_choice" if wanted.tool_choice.mode is ToolMode.REQUIRED else "tools"
