"""DeepSeek V3.1, Terminus and V3.2-Exp: one model that thinks or not, as the tag behind the last user's turn says."""

from tailrace.service.api import ChatPrompt
from tailrace.service.formats.conversation import (
    Call,
    Conversation,
    Role,
    Turn,
    read_conversation,
    split_reasoning,
    wants_thinking,
)
from tailrace.service.formats.deepseek_markup import (
    ASSISTANT,
    BOS,
    CALL_BEGIN,
    CALL_END,
    CALLS_BEGIN,
    CALLS_END,
    EOS,
    OUTPUT_BEGIN,
    OUTPUT_END,
    SEP,
    USER,
    write_system,
)
from tailrace.service.formats.format import EncodedChat
from tailrace.service.formats.writer import PromptWriter

__all__ = ["DeepSeekV31Encoder"]

_HOW_TO_CALL = (
    "IMPORTANT: ALWAYS adhere to this exact format for tool use:\n"
    f"{CALLS_BEGIN}{CALL_BEGIN}tool_call_name{SEP}tool_call_arguments{CALL_END}{{additional_tool_calls}}{CALLS_END}\n\n"
    "Where:\n"
    "- `tool_call_name` must be an exact match to one of the available tools\n"
    "- `tool_call_arguments` must be valid JSON that strictly follows the tool's Parameters Schema\n"
    "- For multiple tool calls, chain them directly without separators or spaces"
)
_THINK, _END_THINK = "<think>", "</think>"


class DeepSeekV31Encoder:
    """An answer behind results goes on without a header, so there the model is not told whether to think."""

    def encode(self, prompt: ChatPrompt) -> EncodedChat:
        chat = read_conversation(prompt)
        writer = PromptWriter()
        writer.write(BOS)
        write_system(writer, chat.system, chat.tools, _HOW_TO_CALL)
        before = Role.USER
        for turn in chat.talk:
            _write_turn(writer, turn, before)
            before = turn.role
        _write_opening(writer, chat, prompt, before)
        return writer.done()


def _write_turn(writer: PromptWriter, turn: Turn, before: Role) -> None:
    if turn.role is Role.USER:
        writer.write(USER)
        writer.say(turn.content)
    elif turn.role is Role.TOOL:
        writer.write(OUTPUT_BEGIN)
        writer.say(turn.content)
        writer.write(OUTPUT_END)
    else:
        if before is Role.USER:
            writer.write(ASSISTANT + _END_THINK)
        writer.say(_without_reasoning(turn.content))
        _write_calls(writer, turn.calls)
        writer.write(EOS)


def _without_reasoning(content: str) -> str:
    before, found, after = content.partition(_END_THINK)
    return after if found else before


def _write_calls(writer: PromptWriter, calls: tuple[Call, ...]) -> None:
    for number, call in enumerate(calls):
        writer.write(CALL_BEGIN if number else CALLS_BEGIN + CALL_BEGIN)
        writer.say(call.name)
        writer.write(SEP)
        writer.say(call.arguments)
        writer.write(CALL_END)
    if calls:
        writer.write(CALLS_END)


def _write_opening(writer: PromptWriter, chat: Conversation, prompt: ChatPrompt, before: Role) -> None:
    """What the prompt has of the answer."""
    continued = None if chat.continued is None else split_reasoning(chat.continued)
    has_header = before is not Role.TOOL
    if has_header and (continued is not None or chat.wants_answer):
        writer.write(ASSISTANT)
    writer.open_answer()
    thinks = wants_thinking(prompt, default=False)
    if continued is None:
        if has_header and chat.wants_answer:
            writer.write(_THINK if thinks else _END_THINK)
        return
    if thinks or continued.reasoning:
        writer.write(_THINK)
        writer.say(continued.reasoning)
    if continued.content:
        writer.write(_END_THINK if has_header or thinks or continued.reasoning else "")
        writer.say(continued.content)
