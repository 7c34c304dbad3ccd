"""ChatML with calls as JSON between `<tool_call>` tags, as Hermes began it and Qwen tells its models of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.service.api import ChatPrompt
from tailrace.service.formats.conversation import (
    Conversation,
    Role,
    Turn,
    as_json,
    read_conversation,
    require_content,
    split_reasoning,
    wants_thinking,
)
from tailrace.service.formats.format import EncodedChat
from tailrace.service.formats.writer import PromptWriter
from tailrace.service.tool_objects import tool_object
from tailrace.service.tools import Tool

__all__ = ["HermesEncoder"]

_BEGIN, _END = "<|im_start|>", "<|im_end|>\n"
_ABOUT_TOOLS = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
)
_HOW_TO_CALL = (
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
    "<tool_call></tool_call> XML tags:\n<tool_call>\n"
    '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
)
_THINK, _END_THINK = "<think>\n", "\n</think>\n\n"


@dataclass(frozen=True, slots=True)
class HermesEncoder:
    """`bos` begins every prompt; `reasons` is said of models that think unless a prompt has an empty thought.

    `opens` is said of those whose prompts end in `<think>`.
    """

    bos: str = ""
    reasons: bool = False
    opens: bool = False

    def encode(self, prompt: ChatPrompt) -> EncodedChat:
        chat = read_conversation(prompt)
        writer = PromptWriter()
        writer.write(self.bos)
        turns = _write_system(writer, chat)
        before: Role | None = None
        for place, turn in enumerate(turns):
            is_last = place + 1 == len(turns) or turns[place + 1].role is not Role.TOOL
            self._write_turn(writer, turn, is_first=before is not Role.TOOL, is_last=is_last)
            before = turn.role
        self._write_opening(writer, chat, prompt)
        return writer.done()

    def _write_turn(self, writer: PromptWriter, turn: Turn, *, is_first: bool, is_last: bool) -> None:
        """Results that come one after another, of which this may be the first or the last, share a user's turn."""
        if turn.role is Role.TOOL:
            writer.write((f"{_BEGIN}user" if is_first else "") + "\n<tool_response>\n")
            writer.say(turn.content)
            writer.write("\n</tool_response>" + (_END if is_last else ""))
            return
        writer.write(f"{_BEGIN}{Role.SYSTEM if turn.role is Role.DEVELOPER else turn.role}")
        content = split_reasoning(turn).content.lstrip("\n") if self.reasons else turn.content
        if content or not turn.calls:
            writer.write("\n")
            writer.say(content)
        for call in turn.calls:
            writer.write('\n<tool_call>\n{"name": ')
            writer.say(as_json(call.name, "name"))
            writer.write(', "arguments": ')
            writer.say(call.arguments)
            writer.write("}\n</tool_call>")
        writer.write(_END)

    def _write_opening(self, writer: PromptWriter, chat: Conversation, prompt: ChatPrompt) -> None:
        if chat.continued is None and not chat.wants_answer:
            return
        writer.write(f"{_BEGIN}assistant\n")
        writer.open_answer()
        if chat.continued is None:
            is_kept_from_it = self.reasons and not wants_thinking(prompt, default=True)
            writer.write(_THINK if self.opens or is_kept_from_it else "")
            writer.write(_END_THINK if is_kept_from_it else "")
            return
        if not self.reasons:
            require_content(prompt, chat.continued)
            writer.say(chat.continued.content)
            return
        turn = split_reasoning(chat.continued)
        writer.write(_THINK)
        writer.say(turn.reasoning)
        writer.write(_END_THINK if turn.content else "")
        writer.say(turn.content)


def _write_system(writer: PromptWriter, chat: Conversation) -> Sequence[Turn]:
    """The first system text with the tools; the turns that come behind it."""
    if not chat.tools:
        return chat.turns
    has_system = bool(chat.turns) and chat.turns[0].role in (Role.SYSTEM, Role.DEVELOPER)
    writer.write(f"{_BEGIN}system\n")
    if has_system:
        writer.say(chat.turns[0].content)
        writer.write("\n\n")
    writer.write(_ABOUT_TOOLS)
    for tool in chat.tools:
        _write_tool(writer, tool)
    writer.write(_HOW_TO_CALL + _END)
    return chat.turns[has_system:]


def _write_tool(writer: PromptWriter, tool: Tool) -> None:
    writer.write("\n")
    writer.say(as_json(tool_object(tool), "tools"))
