"""How the client of a completion reads its answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tailrace.frontends.http.answer import AnswerHead
from tailrace.frontends.http.gathered import WholeChoice
from tailrace.frontends.http.openai.chunks import ChatShape, ChunkShape, ChunkWriter, CompletionShape
from tailrace.frontends.http.openai.whole import encode_chat, encode_completion
from tailrace.service.api import GenerationStream, Usage

__all__ = ["CHAT", "COMPLETION", "CompletionKind", "CompletionsForm"]


@dataclass(frozen=True, slots=True)
class CompletionKind:
    """Where the answers of the two kinds differ."""

    shape: ChunkShape
    encode: Callable[[AnswerHead, Sequence[WholeChoice], Usage], bytes]


CHAT = CompletionKind(ChatShape(), encode_chat)
COMPLETION = CompletionKind(CompletionShape(), encode_completion)


@dataclass(frozen=True, slots=True)
class CompletionsForm:
    kind: CompletionKind
    num_choices: int
    has_usage: bool = False  # in chunks
    shows_reasoning: bool = True

    def writer(self, head: AnswerHead, stream: GenerationStream) -> ChunkWriter:
        return ChunkWriter(
            self.kind.shape,
            head,
            self.num_choices,
            has_usage=self.has_usage,
            shows_reasoning=self.shows_reasoning,
        )

    def encode_whole(self, head: AnswerHead, choices: Sequence[WholeChoice], usage: Usage) -> bytes:
        shown = choices if self.shows_reasoning else [each.without_reasoning() for each in choices]
        return self.kind.encode(head, shown, usage)
