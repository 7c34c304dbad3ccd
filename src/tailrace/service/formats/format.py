"""What a family of models has agreed on: how a conversation becomes a prompt, and what marks the parts of an answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tailrace.errors import InvalidRequest
from tailrace.service.answer_form import ALL_TEXT, AnswerForm
from tailrace.service.api import ChatPrompt

__all__ = ["ChatEncoder", "ChatFormat", "EncodedChat", "ReasoningTags"]


@dataclass(frozen=True, slots=True)
class EncodedChat:
    """A prompt cut up: at even places what people said, at odd ones what the format wrote, where alone markup counts.

    `opened` is the part of it that belongs to the answer, such as `<think>`, or the beginning that is continued.
    """

    pieces: Sequence[str]
    opened: str = ""


class ChatEncoder(Protocol):
    def encode(self, prompt: ChatPrompt) -> EncodedChat:
        """Raises InvalidRequest for a conversation that the format has no place for."""
        ...


@dataclass(frozen=True, slots=True)
class ReasoningTags:
    begin: str = "<think>"
    end: str = "</think>"


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """`tool_style` names the markup of calls, in `parsing.tools` and `formats.call_grammar`; empty: it has none.

    `thinks` says whether the model thinks when nobody says whether it should.
    """

    name: str
    encoder: ChatEncoder
    reasoning: ReasoningTags | None = None
    tool_style: str = ""
    thinks: bool = False

    def encode(self, prompt: ChatPrompt) -> EncodedChat:
        """Raises InvalidRequest for what the format has no place for: it is never silently left out."""
        if self.reasoning is None and (prompt.thinking or prompt.effort is not None):
            param = "thinking" if prompt.thinking else "reasoning_effort"
            raise InvalidRequest(
                f"this model does not think (its format is {self.name!r}); leave {param!r} out", param=param
            )
        if not self.tool_style and prompt.shown_tools:
            raise InvalidRequest(
                f"this model has no markup for calls (its format is {self.name!r}); leave 'tools' out", param="tools"
            )
        return self.encoder.encode(prompt)

    def answer_form(self, prompt: ChatPrompt, opened: str) -> AnswerForm:
        """How the answer to a prompt is taken apart that ends with `opened`."""
        has_tools = bool(prompt.shown_tools)
        return AnswerForm(self.name, opened, has_tools) if has_tools or self.reasoning is not None else ALL_TEXT
