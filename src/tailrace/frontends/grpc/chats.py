"""Chats of our own protocol as prompts: messages, tools, and how much to think."""

from typing import Any

import msgspec

from tailrace.errors import InvalidRequest
from tailrace.frontends.chat import Message, MessageCall, MessageFunction, chat_prompt
from tailrace.frontends.grpc.v1 import inference_pb2 as pb
from tailrace.frontends.tools import choice_of, tool_of, tools_of
from tailrace.frontends.values import TemplateArgs
from tailrace.service.api import ChatPrompt, Tool, ToolChoice, ToolMode

__all__ = ["read_chat", "read_json_object"]

_TEMPLATE_ARGS = msgspec.json.Decoder(TemplateArgs)
_OBJECTS = msgspec.json.Decoder(dict[str, Any])
_MODES = {
    pb.TOOL_MODE_AUTO: ToolMode.AUTO,
    pb.TOOL_MODE_NONE: ToolMode.NONE,
    pb.TOOL_MODE_REQUIRED: ToolMode.REQUIRED,
}


def read_chat(chat: pb.Chat) -> ChatPrompt:
    """Raises InvalidRequest for what is not supported."""
    if not chat.messages:
        raise InvalidRequest("a chat has at least one message", param="messages")
    tools = tools_of((_tool(tool, f"tools[{number}]") for number, tool in enumerate(chat.tools)), "tools")
    return chat_prompt(
        [_message(each) for each in chat.messages],
        add_generation_prompt=None,
        continue_final_message=chat.is_continued,
        template_args=_template_args(chat.template_args),
        tools=tools,
        tool_choice=_choice(chat.tool_choice, tools),
        thinking=chat.thinking if chat.HasField("thinking") else None,
        effort=chat.effort or None,
    )


def read_json_object(given: bytes, param: str) -> dict[str, Any]:
    """Raises InvalidRequest for bytes that are no JSON object."""
    try:
        return _OBJECTS.decode(given)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(f"{param} is no JSON object: {error}", param=param) from None


def _message(message: pb.Message) -> Message:
    calls = [
        MessageCall(id=each.id, function=MessageFunction(each.name, each.arguments)) for each in message.tool_calls
    ]
    return Message(
        role=message.role,
        content=message.content,
        name=message.name or None,
        reasoning_content=message.reasoning or None,
        tool_calls=calls or None,
        tool_call_id=message.tool_call_id or None,
    )


def _tool(tool: pb.Tool, place: str) -> Tool:
    parameters = read_json_object(tool.parameters, f"{place}.parameters") if tool.parameters else None
    return tool_of(tool.name, tool.description, parameters, strict=tool.strict, place=place)


def _choice(choice: pb.ToolChoice, tools: tuple[Tool, ...]) -> ToolChoice:
    mode = _MODES.get(choice.mode)
    if mode is None:
        raise InvalidRequest(f"tool_choice.mode is {choice.mode}, which is no mode", param="tool_choice.mode")
    if choice.name and mode is not ToolMode.REQUIRED:
        raise InvalidRequest("tool_choice.name goes with TOOL_MODE_REQUIRED", param="tool_choice.name")
    return choice_of(mode, choice.name or None, tools, is_parallel=not choice.is_single)


def _template_args(given: bytes) -> TemplateArgs | None:
    if not given:
        return None
    try:
        return _TEMPLATE_ARGS.decode(given)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(f"template_args: {error}", param="template_args") from None
