"""How the client of a message reads its answer."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from tailrace.frontends.http.answer import AnswerHead
from tailrace.frontends.http.anthropic.events import MessageWriter
from tailrace.frontends.http.anthropic.message import Message, TextBlock, stop_of, usage_of
from tailrace.frontends.http.gathered import WholeChoice
from tailrace.service.api import GenerationStream, Usage

__all__ = ["MessageForm"]


@dataclass(frozen=True, slots=True)
class MessageForm:
    max_tokens: int

    def writer(self, head: AnswerHead, stream: GenerationStream) -> MessageWriter:
        return MessageWriter(head, lambda: stream.usage, self.max_tokens)

    def encode_whole(self, head: AnswerHead, choices: Sequence[WholeChoice], usage: Usage) -> bytes:
        (choice,) = choices
        stop_reason, stop_sequence = stop_of(choice.finish_reason, choice.stop_reason, usage, self.max_tokens)
        content = [TextBlock(choice.text)] if choice.text else []
        usage_shown = usage_of(usage, head)
        return msgspec.json.encode(
            Message(head.answer_id, head.model, content, stop_reason, stop_sequence, usage_shown)
        )
