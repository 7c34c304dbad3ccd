"""Chat messages as clients send them, whatever the format, as a prompt."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from tailrace.errors import InvalidRequest
from tailrace.frontends.parts import Content, text_of
from tailrace.frontends.thinking import thinking_wish
from tailrace.frontends.tools import CallHistory, call_of
from tailrace.frontends.values import TemplateArgs
from tailrace.service.api import ANY_CALLS, ChatPrompt, Tool, ToolChoice

__all__ = ["Message", "MessageCall", "MessageFunction", "chat_prompt"]

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_TEXT_TYPES = {"text": frozenset(("cache_control",))}  # caching is automatic
_HISTORY = {"audio": "only text is supported", "function_call": "send tool_calls"}


class MessageFunction(Struct, forbid_unknown_fields=True):
    """As a model wrote it, right or wrong: `arguments` are text that was meant to be JSON."""

    name: Annotated[str, Meta(min_length=1, max_length=1024)]
    arguments: str


class MessageCall(Struct, forbid_unknown_fields=True, kw_only=True):
    """A call of an earlier answer. Its place in that answer comes back from streams."""

    id: str
    type: Literal["function"] | None = None
    function: MessageFunction
    index: int | None = None


class Message(Struct, forbid_unknown_fields=True, kw_only=True):
    """One turn. The last fields come back in histories; `audio` and `function_call` must be empty."""

    role: str
    content: Content | None = None
    name: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    prefix: bool | None = None
    tool_calls: Annotated[list[MessageCall], Meta(max_length=1024)] | None = None
    tool_call_id: str | None = None
    refusal: str | None = None
    annotations: list[object] | None = None
    audio: object = None
    function_call: object = None


def chat_prompt(
    messages: Sequence[Message],
    *,
    add_generation_prompt: bool | None,
    continue_final_message: bool | None,
    template_args: TemplateArgs | None,
    tools: tuple[Tool, ...] = (),
    tool_choice: ToolChoice = ANY_CALLS,
    thinking: bool | None = None,
    effort: str | None = None,
) -> ChatPrompt:
    """Raises InvalidRequest for roles and parts that are not supported, and for wishes that contradict each other.

    `effort` may be "none", which is no thinking.
    """
    is_continued = bool(continue_final_message) or _has_prefix(messages)
    if is_continued and add_generation_prompt:
        raise InvalidRequest(
            "the last message is either continued or followed by a new turn; set add_generation_prompt to false",
            param="add_generation_prompt",
        )
    wish = thinking_wish(thinking, effort, template_args)
    return ChatPrompt(
        messages=_plain_messages(messages),
        add_generation_prompt=not is_continued and add_generation_prompt is not False,
        continue_final_message=is_continued,
        template_args=template_args or {},
        tools=tools,
        tool_choice=tool_choice,
        thinking=wish.thinking,
        effort=wish.effort,
    )


def _has_prefix(messages: Sequence[Message]) -> bool:
    """Whether the last message is marked as the start of the answer; no other may be."""
    for i, message in enumerate(messages):
        if message.prefix and (i + 1 < len(messages) or message.role != "assistant"):
            raise InvalidRequest(
                "only the last message, from the assistant, can be a prefix", param=f"messages[{i}].prefix"
            )
    return bool(messages[-1].prefix)


def _plain_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    calls = CallHistory()
    return [_plain_message(message, f"messages[{i}]", calls) for i, message in enumerate(messages)]


def _plain_message(message: Message, place: str, calls: CallHistory) -> dict[str, Any]:
    _check_role(message, place)
    plain: dict[str, Any] = {"role": _ROLES[message.role], "content": _text(message, place)}
    if message.name is not None:
        plain["name"] = message.name
    reasoning = _reasoning(message, place)
    if reasoning is not None:
        plain["reasoning_content"] = reasoning
    if message.tool_calls:
        plain["tool_calls"] = _plain_calls(message.tool_calls, f"{place}.tool_calls", calls)
    if message.role == "tool":
        plain["tool_call_id"] = _answered(message, place, calls)
    return plain


def _check_role(message: Message, place: str) -> None:
    """Raises InvalidRequest for a role that is none, and for what goes with another."""
    if message.role not in _ROLES:
        hint = "; send results of calls as role 'tool'" if message.role == "function" else ""
        raise InvalidRequest(
            f"{place}.role is {message.role[:32]!r}; it must be one of {', '.join(_ROLES)}{hint}",
            param=f"{place}.role",
        )
    for name, reason in _HISTORY.items():
        if getattr(message, name):
            raise InvalidRequest(f"{place}.{name} is refused: {reason}", param=f"{place}.{name}")
    for name, role in (("tool_calls", "assistant"), ("tool_call_id", "tool")):
        if getattr(message, name) and message.role != role:
            raise InvalidRequest(
                f"{place}.{name} goes with the role {role!r}, not {message.role!r}", param=f"{place}.{name}"
            )


def _plain_calls(calls: Sequence[MessageCall], place: str, history: CallHistory) -> list[dict[str, Any]]:
    for i, call in enumerate(calls):
        history.add(call.id, call.function.name, f"{place}[{i}].id")
    return [call_of(call.id, call.function.name, call.function.arguments) for call in calls]


def _answered(message: Message, place: str, calls: CallHistory) -> str:
    """The id of the call whose result the message is."""
    param = f"{place}.tool_call_id"
    if message.tool_call_id is None:
        raise InvalidRequest(f"{param!r} is missing", param=param, code="missing_required_parameter")
    calls.name_of(message.tool_call_id, param)
    return message.tool_call_id


def _reasoning(message: Message, place: str) -> str | None:
    """In whichever of the two fields it is."""
    one, other = message.reasoning_content, message.reasoning
    if one and other and one != other:
        raise InvalidRequest(
            f"{place}.reasoning_content and {place}.reasoning differ; send one", param=f"{place}.reasoning"
        )
    return other if one is None else one or other


def _text(message: Message, place: str) -> str:
    content = message.content
    if content is not None:
        return text_of(content, f"{place}.content", _TEXT_TYPES)
    if message.role == "assistant":  # histories have turns that said nothing
        return ""
    raise InvalidRequest(f"{place}.content is missing", param=f"{place}.content")
