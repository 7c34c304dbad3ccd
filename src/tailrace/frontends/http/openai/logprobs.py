"""Log probabilities in the two shapes of the API: a list of objects for chat, parallel lists for completions."""

from collections.abc import Iterable

from msgspec import UNSET, Struct, UnsetType

from tailrace.service.api import TextLogprob

__all__ = ["ChatLogprobs", "ChatTokenLogprob", "CompletionLogprobs", "chat_logprobs", "completion_logprobs"]

_LOWEST = -9999.0  # what clients know for "impossible"; JSON has no infinity
_REPLACEMENT = "\ufffd"


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
    """Tokens of reasoning are apart from those of the answer, its calls and its markup."""

    content: list[ChatTokenLogprob]
    refusal: None = None
    reasoning_content: list[ChatTokenLogprob] | UnsetType = UNSET


class CompletionLogprobs(Struct):
    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


def chat_logprobs(entries: Iterable[TextLogprob]) -> ChatLogprobs:
    shown = ChatLogprobs([])
    for entry in entries:
        if not entry.is_reasoning:
            shown.content.append(_chat_token(entry))
        elif shown.reasoning_content is UNSET:
            shown.reasoning_content = [_chat_token(entry)]
        else:
            shown.reasoning_content.append(_chat_token(entry))
    return shown


def _chat_token(entry: TextLogprob) -> ChatTokenLogprob:
    top = [TopLogprob(other.token, _finite(other.logprob), list(other.raw)) for other in entry.top]
    return ChatTokenLogprob(entry.token, _finite(entry.logprob), list(entry.raw), top)


def completion_logprobs(entries: Iterable[TextLogprob]) -> CompletionLogprobs:
    shape = CompletionLogprobs([], [], [], [])
    for entry in entries:
        shape.tokens.append(_spelled(entry))
        shape.token_logprobs.append(_finite(entry.logprob))
        shape.top_logprobs.append(_chosen_and_best(entry))
        shape.text_offset.append(entry.offset)
    return shape


def _chosen_and_best(entry: TextLogprob) -> dict[str, float]:
    """By spelling: where another token looks the same, that one is known by its bytes."""
    shown = {_spelled(entry): _finite(entry.logprob)}
    for other in entry.top:
        if other.token_id != entry.token_id:
            spelling = _spelled(other)
            shown.setdefault(_spelled_bytes(other) if spelling in shown else spelling, _finite(other.logprob))
    return shown


def _spelled(entry: TextLogprob) -> str:
    """The token's text, or its bytes when they are no text: all parts of characters look the same otherwise."""
    if _REPLACEMENT not in entry.token or entry.token.encode() == entry.raw:
        return entry.token
    return _spelled_bytes(entry)


def _spelled_bytes(entry: TextLogprob) -> str:
    return "bytes:" + "".join([f"\\x{byte:02x}" for byte in entry.raw])


def _finite(logprob: float) -> float:
    return max(logprob, _LOWEST)
