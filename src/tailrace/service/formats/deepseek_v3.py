"""DeepSeek V3 and R1: calls as JSON in a fence, results in one block behind which the answer goes on.

The templates that came with V3 lose the end of a single call; this does not. They show no tools, so that tools are told
of in the layout that DeepSeek published with V3.1.
"""

from dataclasses import dataclass

from tailrace.service.api import ChatPrompt
from tailrace.service.formats.conversation import (
    Call,
    Conversation,
    Role,
    Turn,
    read_conversation,
    require_content,
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
    OUTPUTS_BEGIN,
    OUTPUTS_END,
    SEP,
    USER,
    write_system,
)
from tailrace.service.formats.format import EncodedChat
from tailrace.service.formats.writer import PromptWriter

__all__ = ["DeepSeekV3Encoder"]

_FENCE, _FENCE_END = "\n```json\n", "\n```"
_HOW_TO_CALL = (
    "IMPORTANT: ALWAYS adhere to this exact format for tool use:\n"
    f"{CALLS_BEGIN}{CALL_BEGIN}function{SEP}tool_call_name{_FENCE}tool_call_arguments{_FENCE_END}{CALL_END}"
    f"{{additional_tool_calls}}{CALLS_END}\n\n"
    "Where:\n"
    "- `tool_call_name` must be an exact match to one of the available tools\n"
    "- `tool_call_arguments` must be valid JSON that strictly follows the tool's Parameters Schema\n"
    "- For multiple tool calls, begin each further one on a new line"
)
_THINK, _END_THINK = "<think>\n", "\n</think>\n\n"


@dataclass(frozen=True, slots=True)
class DeepSeekV3Encoder:
    """`reasons` is said of R1 and its distills, `opens` of those whose prompts end in `<think>`."""

    reasons: bool = False
    opens: bool = False

    def encode(self, prompt: ChatPrompt) -> EncodedChat:
        chat = read_conversation(prompt)
        writer = PromptWriter()
        writer.write(BOS)
        write_system(writer, chat.system, chat.tools, _HOW_TO_CALL)
        before: Role | None = None
        for turn in chat.talk:
            self._write_turn(writer, turn, before)
            before = turn.role
        _write_header(writer, before, is_wanted=chat.wants_answer or chat.continued is not None)
        writer.open_answer()
        self._open(writer, chat, prompt, before)
        return writer.done()

    def _write_turn(self, writer: PromptWriter, turn: Turn, before: Role | None) -> None:
        if turn.role is Role.TOOL:
            writer.write("\n" if before is Role.TOOL else OUTPUTS_BEGIN)
            writer.write(OUTPUT_BEGIN)
            writer.say(turn.content)
            writer.write(OUTPUT_END)
        elif turn.role is Role.USER:
            _write_header(writer, before, is_wanted=False)
            writer.write(USER)
            writer.say(turn.content)
        else:
            _write_header(writer, before, is_wanted=True)
            writer.say(split_reasoning(turn).content if self.reasons else turn.content)
            _write_calls(writer, turn.calls)
            writer.write(EOS)

    def _open(self, writer: PromptWriter, chat: Conversation, prompt: ChatPrompt, before: Role | None) -> None:
        if chat.continued is not None:
            self._write_continued(writer, chat.continued, prompt)
        elif self.reasons and chat.wants_answer and before is not Role.TOOL:
            if not wants_thinking(prompt, default=True):
                writer.write(_THINK + _END_THINK)
            elif self.opens:
                writer.write(_THINK)

    def _write_continued(self, writer: PromptWriter, turn: Turn, prompt: ChatPrompt) -> None:
        if not self.reasons:
            require_content(prompt, turn)
            writer.say(turn.content)
            return
        turn = split_reasoning(turn)
        writer.write(_THINK)
        writer.say(turn.reasoning)
        if turn.content:
            writer.write(_END_THINK)
            writer.say(turn.content)


def _write_header(writer: PromptWriter, before: Role | None, *, is_wanted: bool) -> None:
    """What stands in front of an answer: behind results, it goes on where they end."""
    if before is Role.TOOL:
        writer.write(OUTPUTS_END)
    elif is_wanted:
        writer.write(ASSISTANT)


def _write_calls(writer: PromptWriter, calls: tuple[Call, ...]) -> None:
    for number, call in enumerate(calls):
        writer.write("\n" if number else CALLS_BEGIN)
        writer.write(f"{CALL_BEGIN}function{SEP}")
        writer.say(call.name)
        writer.write(_FENCE)
        writer.say(call.arguments)
        writer.write(_FENCE_END + CALL_END)
    if calls:
        writer.write(CALLS_END)
