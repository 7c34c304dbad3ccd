"""What a family of models has agreed on: how a conversation becomes a prompt, and what marks the parts of an answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tailrace.service.api import ChatPrompt

__all__ = ["ChatEncoder", "ChatFormat", "EncodedChat", "ReasoningTags"]


@dataclass(frozen=True, slots=True)
class EncodedChat:
    """A prompt cut up: text at even places, control markup at odd ones. Markup in a text is ordinary text.

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
