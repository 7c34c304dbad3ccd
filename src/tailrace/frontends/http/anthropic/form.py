"""How the client of a message reads its answer."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from tailrace.frontends.http.answer import AnswerHead
from tailrace.frontends.http.anthropic.blocks import Block, ThinkingBlock, block_of
from tailrace.frontends.http.anthropic.events import MessageWriter
from tailrace.frontends.http.anthropic.message import Message, stop_of, usage_of
from tailrace.frontends.http.gathered import WholeChoice
from tailrace.service.api import GenerationStream, Usage

__all__ = ["MessageForm"]


@dataclass(frozen=True, slots=True)
class MessageForm:
    """Without `shows_thinking`, a block of thinking is empty."""

    max_tokens: int
    shows_thinking: bool = True

    def writer(self, head: AnswerHead, stream: GenerationStream) -> MessageWriter:
        return MessageWriter(head, lambda: stream.usage, self.max_tokens, shows_thinking=self.shows_thinking)

    def encode_whole(self, head: AnswerHead, choices: Sequence[WholeChoice], usage: Usage) -> bytes:
        (choice,) = choices
        stop_reason, stop_sequence = stop_of(choice.finish_reason, choice.stop_reason, usage, self.max_tokens)
        content = [self._shown(block_of(section)) for section in choice.sections]
        usage_shown = usage_of(usage, head)
        return msgspec.json.encode(
            Message(head.answer_id, head.model, content, stop_reason, stop_sequence, usage_shown)
        )

    def _shown(self, block: Block) -> Block:
        return ThinkingBlock("") if isinstance(block, ThinkingBlock) and not self.shows_thinking else block
