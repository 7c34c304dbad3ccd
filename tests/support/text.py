"""Small vocabularies of both spellings, and an engine that says what a test has written for it."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tailrace.engine.stream import EventStream
from tailrace.service.tokenizer import Tokenizer
from tailrace.types import (
    Explanation,
    FinishReason,
    Invalidated,
    Level,
    MissReason,
    PrefixReport,
    Request,
    Target,
    TokenEvent,
)
from tailrace.weights.checkpoint import GgufVocabulary

__all__ = [
    "CONTROL",
    "MARKUP",
    "ScriptedEngine",
    "byte_level_tokenizer",
    "byte_level_vocabulary",
    "chunked",
    "events_of",
    "sentencepiece_tokenizer",
    "sentencepiece_vocabulary",
]

CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKUP = (*CONTROL, "<think>", "</think>")
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _BYTE = 1, 2, 3, 4, 6
# The bytes of "Ġthe", "hello", parts of an emoji (F0 9F 98 80) and of a Han character, alone and joined to others.
_MERGES = (
    "t h", "th e", "Ġ the", "h e", "l l", "he ll", "hell o", "Ġ h", "i n", "Ċ Ċ", "ð Ł", "ðŁ ĺ", "ĺ Ģ", "Ġ ðŁ", "ä ¸",
    "Ģ !", "Ġ Ġ", "Ã Ń", "ÃŃ a", "e Ì",
)  # fmt: skip


def _byte_alphabet() -> list[str]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return [chr(byte) for byte in printable] + [chr(0x100 + i) for i in range(256 - len(printable))]


def byte_level_vocabulary(pre: str = "smollm") -> GgufVocabulary:
    tokens = [*MARKUP, *_byte_alphabet(), *(merge.replace(" ", "") for merge in _MERGES)]
    types = [_CONTROL] * len(CONTROL) + [_USER_DEFINED] * (len(MARKUP) - len(CONTROL))
    return GgufVocabulary("gpt2", pre, tokens, types + [_NORMAL] * (len(tokens) - len(types)), _MERGES)


def byte_level_tokenizer(pre: str = "smollm") -> Tokenizer:
    return Tokenizer.from_source(byte_level_vocabulary(pre), bos_id=1, eos_ids=(2,))


def sentencepiece_vocabulary(*, add_space_prefix: bool = True) -> GgufVocabulary:
    pieces = ["▁", "h", "e", "l", "o", "w", "r", "d", "he", "ll", "hell", "hello", "▁hello", "▁w", "or", "▁wor", "ld"]
    pieces += ["▁world", "▁▁", "é", "中"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    types = [_UNKNOWN, _CONTROL, _CONTROL] + [_BYTE] * 256 + [_NORMAL] * len(pieces)
    scores = [0.0] * 259 + [-float(1000 - 10 * len(piece)) for piece in pieces]
    return GgufVocabulary("llama", "default", tokens, types, scores=scores, add_space_prefix=add_space_prefix)


def sentencepiece_tokenizer(*, add_space_prefix: bool = True) -> Tokenizer:
    source = sentencepiece_vocabulary(add_space_prefix=add_space_prefix)
    return Tokenizer.from_source(source, bos_id=1, eos_ids=(2,), add_bos=True)


def events_of(
    token_ids: Sequence[int],
    finish_reason: FinishReason = FinishReason.LENGTH,
    *,
    request_id: str = "r-0",
    with_logprobs: bool = False,
) -> list[TokenEvent]:
    """One event a token; the last one ends the request."""
    return [
        TokenEvent(
            request_id,
            token_id,
            prefix=PrefixReport(((Level.ENGINE, 3),), MissReason.NEVER_SEEN),
            finish_reason=finish_reason if place == len(token_ids) - 1 else None,
            logprob=-float(place) if with_logprobs else None,
        )
        for place, token_id in enumerate(token_ids)
    ]


def chunked(events: Sequence[TokenEvent], sizes: Iterable[int]) -> Iterator[tuple[TokenEvent, ...]]:
    """The events in batches of the given sizes, the rest together."""
    place = 0
    for size in sizes:
        if batch := tuple(events[place : place + size]):
            yield batch
        place += size
    if rest := tuple(events[place:]):
        yield rest


Script = Callable[[Request], Sequence[tuple[TokenEvent, ...]]]


@dataclass
class ScriptedEngine:
    """An EngineClient that plays a script for each request: batches of events, one for each round of the loop.

    With `refuse_after` set, so many requests are accepted and the next is met with `refusal`.
    """

    script: Script
    is_ready: bool = True
    received_s: float = 0.0
    refuse_after: int | None = None
    refusal: Exception | None = None
    submitted: list[Request] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    explained: list[tuple[tuple[int, ...], str]] = field(default_factory=list)  # prompt and salt
    invalidated: list[Target] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)  # aborted because their text was complete

    def submit(self, request: Request) -> EventStream:
        if self.refusal is not None and len(self.submitted) == self.refuse_after:
            raise self.refusal
        self.submitted.append(request)
        stream = EventStream()
        asyncio.get_running_loop().call_soon(_play, stream, deque(self.script(request)))
        return stream

    def abort(self, request_id: str, reason: FinishReason = FinishReason.ABORT) -> None:
        (self.stopped if reason is FinishReason.STOP else self.aborted).append(request_id)

    async def explain(self, prompt_ids: Sequence[int], cache_salt: str) -> Explanation:
        self.explained.append((tuple(prompt_ids), cache_salt))
        return Explanation(1, len(prompt_ids), PrefixReport((), MissReason.NEVER_SEEN), 16, (), b"")

    async def invalidate(self, target: Target) -> Invalidated:
        self.invalidated.append(target)
        return Invalidated(1, 1, ((Level.ENGINE, 2),), version=1, block_tokens=16, took_s=0.001)


def _play(stream: EventStream, batches: deque[tuple[TokenEvent, ...]]) -> None:
    for event in batches.popleft():
        stream.push(event)
    if batches:
        asyncio.get_running_loop().call_soon(_play, stream, batches)
