"""Instructions and input items as a `ChatPrompt`."""

from collections.abc import Mapping

from msgspec import Struct

from tailrace.errors import InvalidRequest
from tailrace.frontends.http.responses.conversation import Conversation
from tailrace.frontends.http.responses.schema import CallItem, CallOutputItem, Item, ReasoningItem, ResponseBody
from tailrace.frontends.http.responses.tools import read_choice, read_tools
from tailrace.frontends.parts import text_of
from tailrace.frontends.thinking import thinking_wish
from tailrace.frontends.typed_parts import typed_part
from tailrace.service.api import ChatPrompt

__all__ = ["prompt_of"]

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_MESSAGE_FIELDS = frozenset(("type", "role", "content", "id", "status", "phase"))  # the last are of answers
_TEXT_TYPES = {
    "input_text": frozenset(("prompt_cache_breakpoint",)),  # caching is automatic
    "output_text": frozenset(("annotations", "logprobs")),  # how earlier answers come back
}
_OUTPUT_TYPES = {"input_text": _TEXT_TYPES["input_text"]}
_REASONING_TYPES = {"reasoning_text": frozenset[str]()}
_ITEMS: Mapping[str, type[Struct]] = {
    "function_call": CallItem,
    "function_call_output": CallOutputItem,
    "reasoning": ReasoningItem,
}


def prompt_of(fields: ResponseBody) -> ChatPrompt:
    """Raises InvalidRequest for items that are not supported, for what is no text, and for wishes that contradict."""
    tools = read_tools(fields)
    effort = None if fields.reasoning is None else fields.reasoning.effort
    wish = thinking_wish(None, effort, fields.chat_template_kwargs, effort_param="reasoning.effort")
    return ChatPrompt(
        _conversation(fields).messages,
        template_args=fields.chat_template_kwargs or {},
        tools=tools,
        tool_choice=read_choice(fields, tools),
        thinking=wish.thinking,
        effort=wish.effort,
        param="input",
    )


def _conversation(fields: ResponseBody) -> Conversation:
    conversation = Conversation()
    if fields.instructions:
        conversation.say("system", fields.instructions)
    if isinstance(fields.input, str):
        conversation.say("user", fields.input)
        return conversation
    for number, item in enumerate(fields.input):
        _add(conversation, item, f"input[{number}]")
    return conversation


def _add(conversation: Conversation, item: Item, place: str) -> None:
    if item.get("type", "message") == "message":
        _add_message(conversation, item, place)
        return
    typed = typed_part(item, _ITEMS, place)
    if isinstance(typed, ReasoningItem):
        conversation.think(text_of(typed.content, f"{place}.content", _REASONING_TYPES))
    elif isinstance(typed, CallItem):
        conversation.call(typed.call_id, typed.name, typed.arguments, f"{place}.call_id")
    elif isinstance(typed, CallOutputItem):
        result = text_of(typed.output, f"{place}.output", _OUTPUT_TYPES)
        conversation.answer(typed.call_id, result, f"{place}.call_id")


def _add_message(conversation: Conversation, item: Item, place: str) -> None:
    for name, value in item.items():
        if name not in _MESSAGE_FIELDS and value is not None:
            param = f"{place}.{name[:64]}"
            raise InvalidRequest(f"unknown field {param!r}", param=param, code="unknown_parameter")
    conversation.say(_role(item, place), _text(item, place))


def _role(item: Item, place: str) -> str:
    role = item.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise InvalidRequest(f"{place}.role must be one of {', '.join(_ROLES)}", param=f"{place}.role")
    return _ROLES[role]


def _text(item: Item, place: str) -> str:
    content, place = item.get("content"), f"{place}.content"
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise InvalidRequest(f"{place} must be a string or a list of parts", param=place)
    return text_of(content, place, _TEXT_TYPES)
