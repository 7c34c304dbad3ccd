"""Log probabilities in the two shapes of the API: a list of objects for chat, parallel lists for completions."""

from collections.abc import Iterable

from msgspec import Struct

from tailrace.service.api import TextLogprob

__all__ = ["ChatLogprobs", "CompletionLogprobs", "chat_logprobs", "completion_logprobs"]

_LOWEST = -9999.0  # what clients know for "impossible"; JSON has no infinity


class TopLogprob(Struct):
    token: str
    logprob: float
    bytes: list[int]


class ChatTokenLogprob(Struct):
    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[TopLogprob]


class ChatLogprobs(Struct):
    content: list[ChatTokenLogprob]
    refusal: None = None


class CompletionLogprobs(Struct):
    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


def chat_logprobs(entries: Iterable[TextLogprob]) -> ChatLogprobs:
    return ChatLogprobs([_chat_token(entry) for entry in entries])


def _chat_token(entry: TextLogprob) -> ChatTokenLogprob:
    top = [TopLogprob(other.token, _finite(other.logprob), list(other.raw)) for other in entry.top]
    return ChatTokenLogprob(entry.token, _finite(entry.logprob), list(entry.raw), top)


def completion_logprobs(entries: Iterable[TextLogprob], offset: int) -> CompletionLogprobs:
    """`offset` is where the first token begins, in characters of the choice's text."""
    shape = CompletionLogprobs([], [], [], [])
    for entry in entries:
        shape.tokens.append(entry.token)
        shape.token_logprobs.append(_finite(entry.logprob))
        shape.top_logprobs.append(_best_and_chosen(entry))
        shape.text_offset.append(offset)
        offset += len(entry.token)
    return shape


def _best_and_chosen(entry: TextLogprob) -> dict[str, float]:
    best = {other.token: _finite(other.logprob) for other in entry.top}
    best.setdefault(entry.token, _finite(entry.logprob))
    return best


def _finite(logprob: float) -> float:
    return max(logprob, _LOWEST)
