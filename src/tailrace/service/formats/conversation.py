"""The messages of a prompt, checked, in the words of the formats that tailrace writes itself."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from tailrace.errors import InvalidRequest
from tailrace.service.api import ChatPrompt
from tailrace.service.messages import plain_message
from tailrace.service.tools import Tool

__all__ = [
    "COMMON_ROLES",
    "Call",
    "Conversation",
    "Role",
    "Turn",
    "as_json",
    "read_conversation",
    "require_content",
    "split_reasoning",
    "wanted_effort",
    "wants_thinking",
]

_THINKING_ARGS = ("thinking", "enable_thinking")
_EFFORT_ARG = "reasoning_effort"
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


class Role(StrEnum):
    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    LATEST_REMINDER = "latest_reminder"


@dataclass(frozen=True, slots=True)
class Call:
    """`arguments` are a string of JSON, if the model wrote it well."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Turn:
    """`call_id` is that of the call whose result a tool's turn has."""

    role: Role
    content: str
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """`continued` is an assistant's turn behind the others that the model shall go on with."""

    turns: tuple[Turn, ...]
    tools: tuple[Tool, ...]
    continued: Turn | None
    wants_answer: bool

    @property
    def system(self) -> str:
        """All that the system says, wherever it says so."""
        return "\n\n".join([turn.content for turn in self.turns if turn.role in _SYSTEM and turn.content])

    @property
    def talk(self) -> list[Turn]:
        return [turn for turn in self.turns if turn.role not in _SYSTEM]


_SYSTEM = (Role.SYSTEM, Role.DEVELOPER)
COMMON_ROLES = frozenset({*_SYSTEM, Role.USER, Role.ASSISTANT, Role.TOOL})


def wanted_effort(prompt: ChatPrompt) -> str | None:
    """How much to think; None: nobody says so, or it is not at all."""
    effort = prompt.effort or prompt.template_args.get(_EFFORT_ARG)
    return None if effort == "none" else effort


def wants_thinking(prompt: ChatPrompt, default: bool) -> bool:
    """Who says how much to think wants it to think."""
    if prompt.thinking is not None:
        return prompt.thinking
    said = [prompt.template_args[name] for name in _THINKING_ARGS if name in prompt.template_args]
    if prompt.template_args.get(_EFFORT_ARG) == "none":
        said.append(False)
    return bool(said[0]) if said else default or wanted_effort(prompt) is not None


def read_conversation(prompt: ChatPrompt, roles: Collection[Role] = COMMON_ROLES) -> Conversation:
    """Raises InvalidRequest, naming the field, for what is malformed or has no place in a prompt."""
    for name, value in prompt.template_args.items():
        _check_argument(name, value)
    if not prompt.messages:
        raise InvalidRequest("there are no messages", param=prompt.param)
    turns = [_read_turn(message, place, roles) for place, message in enumerate(prompt.messages)]
    continued = _taken_off(turns) if prompt.continue_final_message else None
    wants_answer = prompt.add_generation_prompt and continued is None
    return Conversation(tuple(_in_call_order(turns)), prompt.shown_tools, continued, wants_answer)


def split_reasoning(turn: Turn) -> Turn:
    """The turn with what its content has in front of the last `</think>` as reasoning, unless it has that apart."""
    if turn.reasoning:
        return turn
    before, end, content = turn.content.rpartition("</think>")
    is_open = not end and content.lstrip().startswith("<think>")
    if not end and not is_open:
        return turn
    reasoning = (content if is_open else before).lstrip().removeprefix("<think>").removeprefix("\n")
    return replace(turn, content="" if is_open else content, reasoning=reasoning)


def require_content(prompt: ChatPrompt, turn: Turn) -> None:
    """Raises InvalidRequest where a thought alone shall be continued, of a model that does not think."""
    if not turn.content:
        where = f"messages[{len(prompt.messages) - 1}].content"
        raise InvalidRequest(f"{where} is empty, so it cannot be continued: this model does not think", param=where)


def as_json(value: Any, param: str, indent: int | None = None) -> str:
    """Raises InvalidRequest for what JSON cannot say."""
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"{param} cannot be written as JSON: {error}", param=param) from error


def _check_argument(name: str, value: Any) -> None:
    """The arguments that templates of thinking models take are taken without one, too."""
    if name not in (*_THINKING_ARGS, _EFFORT_ARG):
        problem = f"means nothing to this model's format; it takes {', '.join(_THINKING_ARGS)} and {_EFFORT_ARG}"
    elif name == _EFFORT_ARG and value not in _EFFORTS:
        problem = f"must be one of {', '.join(_EFFORTS)}"
    elif name != _EFFORT_ARG and not isinstance(value, bool):
        problem = "must be true or false"
    else:
        return
    raise InvalidRequest(f"{name[:64]!r} {problem}", param=f"chat_template_kwargs.{name[:64]}")


def _read_turn(message: Any, place: int, roles: Collection[Role]) -> Turn:
    plain, where = plain_message(message, place), f"messages[{place}]"
    try:
        role = Role(plain["role"])
    except ValueError:
        role = None
    if role is None or role not in roles:
        known = ", ".join(sorted(roles))
        raise InvalidRequest(
            f"{where}.role is {plain['role'][:64]!r}, which this model does not know; it knows {known}",
            param=f"{where}.role",
        )
    if role is Role.ASSISTANT:
        return _read_assistant(plain, where)
    content = plain.get("content")
    if content is None:
        raise InvalidRequest(f"{where}.content is missing", param=f"{where}.content")
    return Turn(role, content, call_id=_text(plain, "tool_call_id", where) if role is Role.TOOL else "")


def _read_assistant(plain: Mapping[str, Any], where: str) -> Turn:
    calls = plain.get("tool_calls") or ()
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        raise InvalidRequest(f"{where}.tool_calls is not a list", param=f"{where}.tool_calls")
    return Turn(
        Role.ASSISTANT,
        plain.get("content") or "",
        reasoning=_text(plain, "reasoning_content", where) or _text(plain, "reasoning", where),
        calls=tuple([_read_call(call, f"{where}.tool_calls[{i}]") for i, call in enumerate(calls)]),
    )


def _read_call(call: Any, where: str) -> Call:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        raise InvalidRequest(f"{where}.function is missing", param=f"{where}.function")
    name = _text(function, "name", f"{where}.function")
    if not name:
        raise InvalidRequest(f"{where}.function.name is missing", param=f"{where}.function.name")
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        arguments = as_json({} if arguments is None else arguments, f"{where}.function.arguments")
    return Call(_text(call, "id", where), name, arguments or "{}")


def _text(values: Mapping[str, Any], name: str, where: str) -> str:
    value = values.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidRequest(f"{where}.{name} is not a string", param=f"{where}.{name}")
    return value or ""


def _taken_off(turns: list[Turn]) -> Turn:
    """The last turn, taken off the others, with its reasoning apart."""
    where = f"messages[{len(turns) - 1}]"
    last = turns.pop()
    if last.role is not Role.ASSISTANT:
        raise InvalidRequest(
            f"{where} is of the {last.role}; only what the assistant says can be continued", param=f"{where}.role"
        )
    if last.calls:
        raise InvalidRequest(f"{where} has calls, so it cannot be continued", param=f"{where}.tool_calls")
    if not last.content and not last.reasoning:
        raise InvalidRequest("the final message has no content that could be continued", param=where)
    return last


def _in_call_order(turns: Sequence[Turn]) -> list[Turn]:
    """The turns with results in the order of their calls: most formats tell by it which result is whose."""
    ordered: list[Turn] = []
    places: dict[str, int] = {}
    results: list[Turn] = []
    for place, turn in enumerate(turns):
        if turn.role is Role.TOOL:
            if not places:
                where = f"messages[{place}]"
                raise InvalidRequest(f"{where} is a tool's, but the assistant has called none before it", param=where)
            results.append(turn)
            continue
        ordered += sorted(results, key=lambda result: places.get(result.call_id, len(places)))
        results = []
        places = {call.call_id: number for number, call in enumerate(turn.calls)}
        ordered.append(turn)
    return ordered + sorted(results, key=lambda result: places.get(result.call_id, len(places)))
