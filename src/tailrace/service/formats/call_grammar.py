"""Tool calls as grammars: what a model may write in each style, and its arguments by their schemas.

Whatever these allow, `parsing.tools` reads back. Special tokens stand by their ids where the vocabulary has them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tailrace.guides.words import lazy_until, literal, schema_rule, token
from tailrace.service.tools import Tool

__all__ = ["CALL_STYLES", "CallGrammar", "CallRules", "call_rules"]

SpecialId = Callable[[str], int | None]
_DSML = "｜DSML｜"
_ANY_OBJECT: Mapping[str, Any] = {"type": "object"}
_SHARED = ("$defs", "definitions")  # what references in a part of a schema lead to
_PLAIN_ROOT = {
    *("type", "properties", "required", "additionalProperties", "title", "description", "$schema", "$id", "strict"),
    *_SHARED,
}
_PLAIN_STRING = {"type", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}


@dataclass(frozen=True, slots=True)
class CallRules:
    """`begun` are calls behind their `opening`, in Lark; `rules` are those that it names.

    In front of the opening, `gap` is markup too. `endings` are texts in which free text inside of calls ends.
    """

    rules: tuple[str, ...]
    opening: str  # as text
    begun: str
    endings: tuple[str, ...] = ()
    gap: str = ""


@dataclass(slots=True)
class CallGrammar:
    """Writes the rules of one request's tools."""

    tools: Sequence[Tool]
    special_id: SpecialId
    is_parallel: bool
    rules: list[str] = field(default_factory=list)
    endings: list[str] = field(default_factory=list)

    def markup(self, text: str) -> str:
        """Text with special tokens, as a sequence of Lark."""
        return " ".join(self._markup_parts(text))

    def arguments(self, tool: Tool) -> str:
        return schema_rule(tool.parameters or _ANY_OBJECT)

    def add(self, name: str, body: str, options: str = "") -> str:
        self.rules.append(f"{name}{options}: {body}")
        return name

    def any_of(self, name: str, bodies: Sequence[str]) -> str:
        return self.add(name, " | ".join(self.add(f"{name}_{number}", body) for number, body in enumerate(bodies)))

    def repeated(self, call: str, between: str = "") -> str:
        """A call, or several where that is allowed."""
        if not self.is_parallel:
            return call
        return f"{call} ({between} {call})*" if between else f"{call}+"

    def _markup_parts(self, text: str) -> list[str]:
        """Cut at special tokens: those between ｜, and tags of their own."""
        parts, plain = list[str](), ""
        place = 0
        while place < len(text):
            special = next((found for found in _candidates(text, place) if self.special_id(found) is not None), None)
            if special is None:
                plain += text[place]
                place += 1
                continue
            if plain:
                parts.append(literal(plain))
            parts.append(token(self.special_id(special) or 0))
            plain = ""
            place += len(special)
        return [*parts, literal(plain)] if plain else parts


def call_rules(style: str, grammar: CallGrammar) -> CallRules:
    return CALL_STYLES[style](grammar)


def _candidates(text: str, place: int) -> list[str]:
    """What begins here and could be a special token, the longest first."""
    if text[place] not in "<｜":
        return []
    close = ">" if text[place] == "<" else "｜"
    ends = [end + 1 for end in range(place + 1, len(text)) if text[end] == close]
    return [text[place:end] for end in reversed(ends)]


def _deepseek_v3(grammar: CallGrammar) -> CallRules:
    end = grammar.markup("\n```<｜tool▁call▁end｜>")
    bodies = [
        f"{grammar.markup('<｜tool▁call▁begin｜>function<｜tool▁sep｜>' + tool.name + chr(10) + '```json' + chr(10))} "
        f"{grammar.arguments(tool)} {end}"
        for tool in grammar.tools
    ]
    call = grammar.any_of("call", bodies)
    begun = f"{grammar.repeated(call, literal(chr(10)))} {grammar.markup('<｜tool▁calls▁end｜>')}"
    return _rules(grammar, "<｜tool▁calls▁begin｜>", begun)


def _deepseek_v31(grammar: CallGrammar) -> CallRules:
    bodies = [
        f"{grammar.markup('<｜tool▁call▁begin｜>' + tool.name + '<｜tool▁sep｜>')} {grammar.arguments(tool)} "
        f"{grammar.markup('<｜tool▁call▁end｜>')}"
        for tool in grammar.tools
    ]
    begun = f"{grammar.repeated(grammar.any_of('call', bodies))} {grammar.markup('<｜tool▁calls▁end｜>')}"
    return _rules(grammar, "<｜tool▁calls▁begin｜>", begun)


def _hermes(grammar: CallGrammar) -> CallRules:
    bodies = [
        _object_of(grammar, tool, "arguments") + f" {grammar.markup(chr(10) + '</tool_call>')}"
        for tool in grammar.tools
    ]
    call = grammar.any_of("call", bodies)
    begun = f"{literal(chr(10))} {grammar.repeated(call, grammar.markup(chr(10) + '<tool_call>' + chr(10)))}"
    return _rules(grammar, "<tool_call>", begun)


def _llama3(grammar: CallGrammar) -> CallRules:
    call = grammar.any_of("call", [_object_of(grammar, tool, "parameters") for tool in grammar.tools])
    return _rules(grammar, "", grammar.repeated(call, literal("; ")))


def _object_of(grammar: CallGrammar, tool: Tool, key: str) -> str:
    begin = f'{{"name": {literal(tool.name)}, "{key}": '
    return f"{literal(begin)} {grammar.arguments(tool)} {literal('}')}"


def _dsml(block: str) -> Callable[[CallGrammar], CallRules]:
    def write(grammar: CallGrammar) -> CallRules:
        bodies = [
            f"{grammar.markup(f'<{_DSML}invoke name={_quoted(tool.name)}>' + chr(10))} "
            f"{_parameters(grammar, tool, number)} {grammar.markup(f'</{_DSML}invoke>' + chr(10))}"
            for number, tool in enumerate(grammar.tools)
        ]
        call = grammar.any_of("call", bodies)
        begun = f"{literal(chr(10))} {grammar.repeated(call)} {grammar.markup(f'</{_DSML}{block}>')}"
        return replace(_rules(grammar, f"<{_DSML}{block}>", begun), gap="\n\n")

    return write


def _parameters(grammar: CallGrammar, tool: Tool, number: int) -> str:
    """Each parameter between its tags, in the order of the schema; an object, where the schema is no list of them."""
    schema = tool.parameters or _ANY_OBJECT
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties or not _PLAIN_ROOT.issuperset(schema):
        return f"{grammar.arguments(tool)} {literal(chr(10))}"
    shared = {key: schema[key] for key in _SHARED if key in schema}
    required = schema.get("required", ())
    names = [*properties, *(name for name in required if name not in properties)]
    if any('"' in name or "\n" in name for name in names):
        return f"{grammar.arguments(tool)} {literal(chr(10))}"
    written = []
    for place, name in enumerate(names):
        rule = grammar.add(f"parameter_{number}_{place}", _parameter(grammar, name, properties.get(name, {}), shared))
        written.append(rule if name in required else f"{rule}?")
    return " ".join(written)


def _parameter(grammar: CallGrammar, name: str, schema: Any, shared: Mapping[str, Any]) -> str:
    is_text = isinstance(schema, Mapping) and schema.get("type") == "string" and _PLAIN_STRING.issuperset(schema)
    begin = grammar.markup(f'<{_DSML}parameter name={_quoted(name)} string="{str(is_text).lower()}">')
    if is_text:
        return f"{begin} {_text_value(grammar)} {literal(chr(10))}"
    rule = schema_rule({**schema, **shared} if isinstance(schema, Mapping) else {"anyOf": [schema]})
    return f"{begin} {rule} {grammar.markup(f'</{_DSML}parameter>' + chr(10))}"


def _text_value(grammar: CallGrammar) -> str:
    """Free text up to its end tag, and that."""
    name = "text_value"
    if not any(rule.startswith(name) for rule in grammar.rules):
        special = grammar.special_id(_DSML)
        if special is None:
            end = f"</{_DSML}parameter>"
            grammar.endings.append(end)
            grammar.add(name, lazy_until(end), "[lazy]")
        else:
            grammar.endings.append("</")
            grammar.add(name, rf"/(.|\n)*<\// {token(special)} {literal('parameter>')}")
    return name


def _quoted(name: str) -> str:
    return f'"{name}"'


def _rules(grammar: CallGrammar, opening: str, begun: str) -> CallRules:
    return CallRules(tuple(grammar.rules), opening, begun, tuple(grammar.endings))


CALL_STYLES: Mapping[str, Callable[[CallGrammar], CallRules]] = {
    "deepseek_v3": _deepseek_v3,
    "deepseek_v31": _deepseek_v31,
    "deepseek_v32": _dsml("function_calls"),
    "deepseek_v4": _dsml("tool_calls"),
    "hermes": _hermes,
    "llama3": _llama3,
}
