"""DeepSeek V4, written by DeepSeek's own library, which says what in its text is markup. It is an optional package."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from tailrace.errors import InvalidRequest, SetupError
from tailrace.service.api import ChatPrompt
from tailrace.service.formats.conversation import (
    COMMON_ROLES,
    Conversation,
    Role,
    Turn,
    read_conversation,
    split_reasoning,
    wanted_effort,
    wants_thinking,
)
from tailrace.service.formats.deepseek_markup import ASSISTANT
from tailrace.service.formats.format import EncodedChat

if TYPE_CHECKING:
    import deepseek_recipe
    from deepseek_recipe import Message, ToolDefinition

__all__ = ["DeepSeekV4Encoder"]

_ROLES = COMMON_ROLES | {Role.LATEST_REMINDER}
_EFFORTS: Mapping[str, Literal["low", "high", "xhigh", "max"]] = {
    "minimal": "low",
    "low": "low",
    "medium": "high",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}


class DeepSeekV4Encoder:
    """Raises SetupError where the package is missing."""

    def __init__(self) -> None:
        try:
            import deepseek_recipe as recipe  # noqa: PLC0415  (large, optional, and of one family of models)
        except ImportError:
            raise SetupError("DeepSeek V4's prompts need deepseek-recipe: pip install 'tailrace[v4]'") from None
        self._recipe = recipe
        self._encoding = recipe.DeepseekV4Encoding()

    def encode(self, prompt: ChatPrompt) -> EncodedChat:
        chat = read_conversation(prompt, _ROLES)
        thinks = wants_thinking(prompt, default=True)
        try:
            rendered = self._encoding.render_conversation(self._conversation(prompt, chat, thinks=thinks))
        except (TypeError, ValueError, RecursionError) as error:
            message = f"this conversation cannot be written for DeepSeek V4: {error}"
            raise InvalidRequest(message, param=prompt.param) from error
        text, ranges = rendered.prompt, rendered.special_ranges  # each is made anew when it is asked for
        header = max([place for place, span in enumerate(ranges) if text[slice(*span)] == ASSISTANT])
        if not chat.wants_answer and chat.continued is None:  # the library always asks for an answer
            return EncodedChat(_cut(text[: ranges[header][0]], ranges[:header]))
        return EncodedChat(_cut(text, ranges), text[ranges[header][1] :])

    def _conversation(self, prompt: ChatPrompt, chat: Conversation, *, thinks: bool) -> "deepseek_recipe.Conversation":
        messages = [self._message(turn, thinks=thinks) for turn in chat.turns]
        if chat.continued is not None:
            messages.append(self._answer(split_reasoning(chat.continued), thinks=thinks, is_continued=True))
        return self._recipe.Conversation(
            messages,
            thinking_mode=thinks,
            tools=self._tools(prompt),
            reasoning_effort=_EFFORTS.get(wanted_effort(prompt) or ""),
        )

    def _message(self, turn: Turn, *, thinks: bool) -> "Message":
        if turn.role is Role.ASSISTANT:
            return self._answer(split_reasoning(turn), thinks=thinks, is_continued=False)
        if turn.role is Role.TOOL:
            return self._recipe.ToolMessage(turn.content, turn.call_id)
        return self._kinds[turn.role](turn.content)

    @property
    def _kinds(self) -> "Mapping[Role, Callable[[str], Message]]":
        recipe = self._recipe
        return {
            Role.SYSTEM: recipe.SystemMessage,
            Role.DEVELOPER: recipe.SystemMessage,
            Role.USER: recipe.UserMessage,
            Role.LATEST_REMINDER: recipe.LatestReminderMessage,
        }

    def _answer(self, turn: Turn, *, thinks: bool, is_continued: bool) -> "Message":
        """A thought that nobody sent was an empty one, where the model thinks."""
        calls = [self._recipe.ToolCall(call.call_id, call.name, call.arguments) for call in turn.calls]
        reasoning = turn.reasoning if turn.reasoning or thinks else None
        return self._recipe.AssistantMessage(turn.content, reasoning, calls or None, is_continued)

    def _tools(self, prompt: ChatPrompt) -> "list[ToolDefinition]":
        return [
            self._recipe.ToolDefinition(tool.name, tool.description, dict(tool.parameters) or None)
            for tool in prompt.shown_tools
        ]


def _cut(text: str, ranges: Sequence[tuple[int, int]]) -> list[str]:
    """The text at even places, what lies in the ranges at odd ones."""
    pieces: list[str] = []
    end = 0
    for begin, following in ranges:
        pieces += (text[end:begin], text[begin:following])
        end = following
    return [*pieces, text[end:]]
