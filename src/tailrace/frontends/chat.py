"""Chat messages as clients send them, whatever the format, as a prompt."""

from collections.abc import Sequence

from msgspec import Struct

from tailrace.errors import InvalidRequest
from tailrace.frontends.parts import Content, text_of
from tailrace.frontends.values import TemplateArgs
from tailrace.service.api import ChatPrompt

__all__ = ["Message", "chat_prompt"]

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_TEXT_TYPES = {"text": frozenset(("cache_control",))}  # caching is automatic
_HISTORY = ("audio", "function_call", "tool_calls", "tool_call_id")


class Message(Struct, forbid_unknown_fields=True, kw_only=True):
    """One turn. The fields after `prefix` come back in histories; they must be empty."""

    role: str
    content: Content | None = None
    name: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    prefix: bool | None = None
    refusal: str | None = None
    annotations: list[object] | None = None
    audio: object = None
    function_call: object = None
    tool_calls: list[object] | None = None
    tool_call_id: str | None = None


def chat_prompt(
    messages: Sequence[Message],
    *,
    add_generation_prompt: bool | None,
    continue_final_message: bool | None,
    template_args: TemplateArgs | None,
) -> ChatPrompt:
    """Raises InvalidRequest for roles and parts that are not supported."""
    is_continued = bool(continue_final_message) or _has_prefix(messages)
    if is_continued and add_generation_prompt:
        raise InvalidRequest(
            "the last message is either continued or followed by a new turn; set add_generation_prompt to false",
            param="add_generation_prompt",
        )
    return ChatPrompt(
        messages=[_plain_message(message, f"messages[{i}]") for i, message in enumerate(messages)],
        add_generation_prompt=not is_continued and add_generation_prompt is not False,
        continue_final_message=is_continued,
        template_args=template_args or {},
    )


def _has_prefix(messages: Sequence[Message]) -> bool:
    """Whether the last message is marked as the start of the answer; no other may be."""
    for i, message in enumerate(messages):
        if message.prefix and (i + 1 < len(messages) or message.role != "assistant"):
            raise InvalidRequest(
                "only the last message, from the assistant, can be a prefix", param=f"messages[{i}].prefix"
            )
    return bool(messages[-1].prefix)


def _plain_message(message: Message, place: str) -> dict[str, str]:
    if message.role not in _ROLES:
        raise InvalidRequest(
            f"{place}.role is {message.role[:32]!r}; it must be one of {', '.join(_ROLES)}", param=f"{place}.role"
        )
    for name in _HISTORY:
        if getattr(message, name):
            param = f"{place}.{name}"
            raise InvalidRequest(f"{param} is refused: only text is supported", param=param)
    plain = {"role": _ROLES[message.role], "content": _text(message, place)}
    if message.name is not None:
        plain["name"] = message.name
    reasoning = message.reasoning_content if message.reasoning_content is not None else message.reasoning
    if reasoning is not None:
        plain["reasoning_content"] = reasoning
    return plain


def _text(message: Message, place: str) -> str:
    content = message.content
    if content is not None:
        return text_of(content, f"{place}.content", _TEXT_TYPES)
    if message.role == "assistant":  # histories have turns that said nothing
        return ""
    raise InvalidRequest(f"{place}.content is missing", param=f"{place}.content")
