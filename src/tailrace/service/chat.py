"""Messages to one prompt text, through the chat template that comes with a model.

The template is foreign code: it runs in a sandbox, its output is bounded, and whatever it raises is an answer to the
client. Message text goes in guarded, so that the rendered prompt can be cut at the template's own markup.
"""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tailrace.errors import InvalidRequest, UnsupportedModel
from tailrace.service.api import ChatPrompt
from tailrace.service.markup import Guard, private_mark
from tailrace.service.messages import plain_message
from tailrace.service.tool_objects import tool_object

__all__ = ["ChatTemplate"]

_RESERVED = frozenset({"messages", "add_generation_prompt", "continue_final_message"})
# A template that joins the arguments of a call to other text takes them as a string; others write JSON of an object.
_JOINED_ARGUMENTS = re.compile(r"arguments(['\"]\s*\])?\s*[+~]|[+~]\s*[\w.'\"\[\]]*\barguments(['\"]\s*\])?\s*[+~)}-]")


class ChatTemplate:
    """Renders messages. `special_tokens` (bos_token, eos_token, ...) are variables of the template."""

    def __init__(
        self, template: str, special_tokens: Mapping[str, str] | None = None, *, max_chars: int = 8_000_000
    ) -> None:
        self._max_chars = max_chars
        self._variables = {"tools": None, "documents": None, **(special_tokens or {})}
        self._joins_arguments = _JOINED_ARGUMENTS.search(template) is not None
        try:
            self._template = _environment().from_string(template)
        except jinja2.TemplateSyntaxError as error:
            raise UnsupportedModel(
                f"the model's chat template cannot be read: line {error.lineno}: {error.message}"
            ) from error

    def render(self, prompt: ChatPrompt, guard: Guard) -> str:
        """The prompt text. Raises InvalidRequest for messages that the template or this module cannot take."""
        if taken := _RESERVED & prompt.template_args.keys():
            raise InvalidRequest(
                f"{sorted(taken)[0]!r} cannot be a template argument", param=f"chat_template_kwargs.{sorted(taken)[0]}"
            )
        messages = [self._message(message, place) for place, message in enumerate(prompt.messages)]
        if not messages:
            raise InvalidRequest("there are no messages", param=prompt.param)
        if prompt.continue_final_message:
            return self._render_open_ended(messages, prompt, guard)
        return self._render(messages, prompt, guard, add_generation_prompt=prompt.add_generation_prompt)

    def _message(self, message: Any, place: int) -> dict[str, Any]:
        """The message as templates know them."""
        plain = plain_message(message, place)
        if plain.get("reasoning") and not plain.get("reasoning_content"):
            plain["reasoning_content"] = plain["reasoning"]
        if not self._joins_arguments and isinstance(calls := plain.get("tool_calls"), list | tuple):
            plain["tool_calls"] = [_with_object(call) for call in calls]
        return plain

    def _render_open_ended(self, messages: list[dict[str, Any]], prompt: ChatPrompt, guard: Guard) -> str:
        """The prompt up to the end of the final message's content, for the model to go on from there."""
        end = private_mark()
        content = messages[-1].get("content")
        if not content:
            raise InvalidRequest(
                "the final message has no content that could be continued", param=f"messages[{len(messages) - 1}]"
            )
        messages[-1]["content"] = content + end
        text, found, _ = self._render(messages, prompt, guard, add_generation_prompt=False).rpartition(end)
        if not found:
            raise InvalidRequest(
                "the chat template leaves the final message out, so it cannot be continued",
                param="continue_final_message",
            )
        return text

    def _render(
        self, messages: list[dict[str, Any]], prompt: ChatPrompt, guard: Guard, *, add_generation_prompt: bool
    ) -> str:
        variables = {
            **self._variables,
            **_thinking_variables(prompt),
            **guard.protect(prompt.template_args, "chat_template_kwargs"),
            **_tool_variables(prompt, guard),
            "messages": guard.protect(messages),
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            return self._collect(variables)
        except InvalidRequest:
            raise
        except Exception as error:  # the template is foreign code: any error in it is about these messages
            raise InvalidRequest(
                f"the model's chat template does not accept these messages: {error}", param=prompt.param
            ) from error

    def _collect(self, variables: Mapping[str, Any]) -> str:
        pieces: list[str] = []
        room = self._max_chars
        for piece in self._template.generate(variables):
            room -= len(piece)
            if room < 0:
                raise InvalidRequest(f"the rendered prompt is longer than {self._max_chars} characters")
            pieces.append(piece)
        return "".join(pieces)


def _with_object(call: Any) -> Any:
    """The call with its arguments as the object that they are JSON of; as it is, where they are of none."""
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(arguments := function.get("arguments"), str):
        return call
    try:
        read = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return call
    return {**call, "function": {**function, "arguments": read}} if isinstance(read, dict) else call


def _thinking_variables(prompt: ChatPrompt) -> dict[str, Any]:
    """What templates ask for, under the names that they know it by."""
    variables: dict[str, Any] = {}
    if prompt.thinking is not None:
        variables |= {"thinking": prompt.thinking, "enable_thinking": prompt.thinking}
    if prompt.effort is not None:
        variables["reasoning_effort"] = prompt.effort
    return variables


def _tool_variables(prompt: ChatPrompt, guard: Guard) -> dict[str, Any]:
    tools = prompt.shown_tools
    return {"tools": guard.protect([tool_object(tool) for tool in tools], "tools")} if tools else {}


class _Generation(Extension):
    """`{% generation %}` marks what a model wrote, for training; in a prompt the block is just its body."""

    tags = {"generation"}  # noqa: RUF012  (jinja2 declares it as an instance attribute)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> ImmutableSandboxedEnvironment:
    """What chat templates expect of their surroundings."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().astimezone().strftime(pattern)
