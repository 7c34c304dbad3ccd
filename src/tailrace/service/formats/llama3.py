"""Llama 3's headers, for models whose own template knows no tools: a call is JSON, a result is ipython's turn."""

from dataclasses import dataclass

from tailrace.service.api import ChatPrompt
from tailrace.service.formats.conversation import (
    Conversation,
    Role,
    Turn,
    as_json,
    read_conversation,
    require_content,
)
from tailrace.service.formats.format import EncodedChat
from tailrace.service.formats.writer import PromptWriter
from tailrace.service.tool_objects import tool_object

__all__ = ["Llama3Encoder"]

_END = "<|eot_id|>"
_NAMES = {Role.DEVELOPER: "system", Role.TOOL: "ipython"}
_ABOUT_TOOLS = (
    "You have access to the following functions. To call a function, please respond with JSON for a function call. "
    'Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}. '
    "Do not use variables.\n\n"
)


@dataclass(frozen=True, slots=True)
class Llama3Encoder:
    """`bos` begins every prompt."""

    bos: str = "<|begin_of_text|>"

    def encode(self, prompt: ChatPrompt) -> EncodedChat:
        chat = read_conversation(prompt)
        writer = PromptWriter()
        writer.write(self.bos)
        _write_system(writer, chat)
        for turn in chat.talk:
            _write_header(writer, _NAMES.get(turn.role, turn.role))
            writer.say(turn.content.strip())
            _write_calls(writer, turn)
            writer.write(_END)
        if chat.wants_answer or chat.continued is not None:
            _write_header(writer, Role.ASSISTANT)
            writer.open_answer()
        if chat.continued is not None:
            require_content(prompt, chat.continued)
            writer.say(chat.continued.content)
        return writer.done()


def _write_header(writer: PromptWriter, name: str) -> None:
    writer.write(f"<|start_header_id|>{name}<|end_header_id|>\n\n")


def _write_system(writer: PromptWriter, chat: Conversation) -> None:
    if not chat.system and not chat.tools:
        return
    _write_header(writer, Role.SYSTEM)
    if chat.tools:
        writer.write("Environment: ipython\n\n" + _ABOUT_TOOLS)
        for tool in chat.tools:
            writer.say(as_json(tool_object(tool), "tools", indent=4))
            writer.write("\n\n")
    writer.say(chat.system)
    writer.write(_END)


def _write_calls(writer: PromptWriter, turn: Turn) -> None:
    for number, call in enumerate(turn.calls):
        writer.write("; " if number else "")
        writer.write('{"name": ')
        writer.say(as_json(call.name, "name"))
        writer.write(', "parameters": ')
        writer.say(call.arguments)
        writer.write("}")
