"""DeepSeek V3.2, which comes without a template: each user's turn and each block of results says whether to think.

What was thought since the last user spoke is kept, so that a model goes on thinking where its calls interrupted it.
"""

from collections.abc import Sequence

from tailrace.service.api import ChatPrompt
from tailrace.service.formats.conversation import (
    Conversation,
    Role,
    Turn,
    as_json,
    read_conversation,
    split_reasoning,
    wants_thinking,
)
from tailrace.service.formats.deepseek_markup import ASSISTANT, BOS, EOS, USER
from tailrace.service.formats.dsml import DSML, write_calls
from tailrace.service.formats.format import EncodedChat
from tailrace.service.formats.writer import PromptWriter
from tailrace.service.tool_objects import function_object

__all__ = ["DeepSeekV32Encoder"]

_THINK, _END_THINK = "<think>", "</think>"
_BLOCK = "function_calls"
_ABOUT_TOOLS = f"""## Tools
You have access to a set of tools you can use to answer the user's question.
You can invoke functions by writing a "<{DSML}{_BLOCK}>" block like the following as part of your reply to the user:
<{DSML}{_BLOCK}>
<{DSML}invoke name="$FUNCTION_NAME">
<{DSML}parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</{DSML}parameter>
...
</{DSML}invoke>
<{DSML}invoke name="$FUNCTION_NAME2">
...
</{DSML}invoke>
</{DSML}{_BLOCK}>
String and scalar parameters should be specified as is without any escaping or quotes, while lists and objects should \
use JSON format. The "string" attribute should be set to "true" for string type parameters and "false" for other types \
(numbers, booleans, arrays, objects).
If the thinking_mode is enabled, then after function results you should strongly consider outputting a thinking block. \
Here is an example:
<{DSML}{_BLOCK}>
...
</{DSML}{_BLOCK}>
<function_results>
...
</function_results>
{_THINK}...thinking about results{_END_THINK}
Here are the functions available in JSONSchema format:
<functions>
"""


_USERS = (Role.USER, Role.DEVELOPER)
_ASKING = (*_USERS, Role.TOOL)


class DeepSeekV32Encoder:
    def encode(self, prompt: ChatPrompt) -> EncodedChat:
        chat = read_conversation(prompt)
        continued = None if chat.continued is None else split_reasoning(chat.continued)
        thinks = wants_thinking(prompt, default=False) or (continued is not None and continued.reasoning != "")
        writer = PromptWriter()
        writer.write(BOS)
        turns = _write_system(writer, chat)
        _write_turns(writer, turns, thinks=thinks)
        if chat.wants_answer or continued is not None:
            writer.write("\n\n" if turns and turns[-1].role is Role.TOOL else ASSISTANT)
            writer.open_answer()
            writer.write(_THINK if thinks else _END_THINK)
        if continued is not None:
            writer.say(continued.reasoning)
            writer.write(_END_THINK if thinks and continued.content else "")
            writer.say(continued.content)
        return writer.done()


def _write_system(writer: PromptWriter, chat: Conversation) -> Sequence[Turn]:
    """The first system text with the tools; the turns that come behind it."""
    has_system = bool(chat.turns) and chat.turns[0].role is Role.SYSTEM
    if has_system:
        writer.say(chat.turns[0].content)
    if chat.tools:
        writer.write("\n\n" + _ABOUT_TOOLS)
        for tool in chat.tools:
            writer.say(as_json(function_object(tool), "tools"))
            writer.write("\n")
        writer.write("</functions>\n")
    return chat.turns[has_system:]


def _write_turns(writer: PromptWriter, turns: Sequence[Turn], *, thinks: bool) -> None:
    last_user = max([place for place, turn in enumerate(turns) if turn.role in _USERS], default=-1)
    for place, turn in enumerate(turns):
        before = turns[place - 1].role if place else None
        after = turns[place + 1].role if place + 1 < len(turns) else None
        is_thought = thinks and place >= last_user
        if turn.role is Role.TOOL:
            _write_result(writer, turn, is_first=before is not Role.TOOL, is_last=after is not Role.TOOL)
        elif turn.role is Role.ASSISTANT:
            _write_answer(writer, split_reasoning(turn), keeps_reasoning=is_thought)
        else:
            writer.write(_BEFORE[turn.role])
            writer.say(turn.content)
        if after is not None and turn.role in _ASKING and not (turn.role is after is Role.TOOL):
            writer.write("\n\n" if turn.role is Role.TOOL else ASSISTANT)
            writer.write(_THINK if is_thought else _END_THINK)


_BEFORE = {Role.SYSTEM: "", Role.USER: USER, Role.DEVELOPER: f"{USER}\n\n# The user's message is: "}


def _write_result(writer: PromptWriter, turn: Turn, *, is_first: bool, is_last: bool) -> None:
    writer.write(("\n\n<function_results>" if is_first else "") + "\n<result>")
    writer.say(turn.content)
    writer.write("</result>" + ("\n</function_results>" if is_last else ""))


def _write_answer(writer: PromptWriter, turn: Turn, *, keeps_reasoning: bool) -> None:
    if keeps_reasoning:
        writer.say(turn.reasoning)
        writer.write(_END_THINK)
    writer.say(turn.content)
    write_calls(writer, turn.calls, _BLOCK)
    writer.write(EOS)
