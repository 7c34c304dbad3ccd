"""What an API process and the engine say to each other, as bytes: MessagePack, and token ids as they lie in memory.

    | 4 bytes: length of the head | head | token ids, 4 bytes each, in the order of the machine |

Both ends are of one server, forked from one process. Still nothing that is read is trusted: what is not a message of
ours raises MessageDamaged, whatever it is, and no message makes the reader take more memory than it is long.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, TypeAlias

from msgspec import MsgspecError, Raw, Struct
from msgspec.msgpack import Decoder, Encoder

from tailrace.errors import EngineError
from tailrace.types import (
    Beginning,
    BlockTarget,
    CacheAnswer,
    CacheQuery,
    Explain,
    Explanation,
    FinishReason,
    Invalidate,
    Invalidated,
    ModelTarget,
    PrefixReport,
    PromptTarget,
    Refusal,
    Request,
    Target,
    TenantTarget,
    TokenEvent,
    TokenIds,
    TokenLogprob,
    packed,
)

__all__ = [
    "Abort",
    "Command",
    "Detail",
    "Kind",
    "Message",
    "MessageDamaged",
    "Pause",
    "Proceed",
    "Submit",
    "decode",
    "detail_of",
    "encode",
    "number_of",
]

_LENGTH_BYTES = 4


class MessageDamaged(EngineError):
    """What was read is not a message of ours."""


class Kind(IntEnum):
    SUBMIT = 1  # to the engine
    ABORT = 2
    PAUSE = 3
    PROCEED = 4
    EXPLAIN = 5
    INVALIDATE = 6
    DETAIL = 7  # from the engine
    EXPLANATION = 8
    INVALIDATED = 9


@dataclass(frozen=True, slots=True)
class Submit:
    """Compute this. A suspect may have killed an engine."""

    number: int
    request: Request
    is_suspect: bool = False


@dataclass(frozen=True, slots=True)
class Abort:
    number: int
    reason: FinishReason


@dataclass(frozen=True, slots=True)
class Pause:
    number: int


@dataclass(frozen=True, slots=True)
class Proceed:
    number: int


@dataclass(frozen=True, slots=True)
class Detail:
    """What an event says besides what a token slot has room for."""

    number: int
    prefix: PrefixReport | None = None
    top_logprobs: tuple[TokenLogprob, ...] = ()
    error: str | None = None
    refusal: Refusal | None = None
    beginning: Beginning | None = None


Command: TypeAlias = Submit | Abort | Pause | Proceed | CacheQuery
Message: TypeAlias = Command | Detail | CacheAnswer

Encoded: TypeAlias = tuple[Kind, tuple[bytes | memoryview, ...]]


def number_of(message: Message) -> int:
    """Of the request or question that it is about."""
    if isinstance(message, Submit | Abort | Pause | Proceed | Detail):
        return message.number
    return message.query_id


def detail_of(number: int, event: TokenEvent, prefix: PrefixReport | None) -> Detail:
    return Detail(number, prefix, event.top_logprobs, event.error, event.refusal, event.beginning)


def encode(message: Message) -> Encoded:
    """The kind of a message, and its bytes in parts. Raises OverflowError and UnicodeEncodeError for odd content."""
    match message:
        case Submit():
            return Kind.SUBMIT, _encode_submit(message)
        case Explain():
            head = _ExplainHead(message.query_id, message.cache_salt)
            return Kind.EXPLAIN, _parts(head, message.prompt_ids)
        case Invalidate():
            return Kind.INVALIDATE, _encode_invalidate(message)
        case _:
            return _KINDS[type(message)], _parts(message)


def decode(kind: int, payload: bytes) -> Message:
    """The message that `encode` made these of. Raises MessageDamaged."""
    try:
        head, token_ids = _cut(payload)
        match kind:
            case Kind.SUBMIT:
                return _decode_submit(head, token_ids)
            case Kind.EXPLAIN:
                explain = _EXPLAIN.decode(head)
                return Explain(explain.query_id, token_ids, explain.cache_salt)
            case Kind.INVALIDATE:
                return _decode_invalidate(head, token_ids)
            case _:
                message: Message = _DECODERS[Kind(kind)].decode(head)
                return message
    except (MsgspecError, ValueError, KeyError, RecursionError) as error:
        raise MessageDamaged(
            f"a message of kind {kind} with {len(payload)} bytes is damaged ({error}): this is a fault of the server"
        ) from error


class _SubmitHead(Struct, array_like=True, frozen=True):
    number: int
    is_suspect: bool
    num_prompt_tokens: int
    request: Request  # without its tokens


class _ExplainHead(Struct, array_like=True, frozen=True):
    query_id: int
    cache_salt: str


class _InvalidateHead(Struct, array_like=True, frozen=True):
    query_id: int
    target_index: int
    target: Raw  # without its tokens


_TARGETS: tuple[type[Target], ...] = (BlockTarget, PromptTarget, TenantTarget, ModelTarget)
_KINDS: dict[type[Any], Kind] = {
    Abort: Kind.ABORT,
    Pause: Kind.PAUSE,
    Proceed: Kind.PROCEED,
    Detail: Kind.DETAIL,
    Explanation: Kind.EXPLANATION,
    Invalidated: Kind.INVALIDATED,
}

_ENCODER = Encoder()
_SUBMIT = Decoder(_SubmitHead)
_EXPLAIN = Decoder(_ExplainHead)
_INVALIDATE = Decoder(_InvalidateHead)
_TARGET_DECODERS = {index: Decoder(target) for index, target in enumerate(_TARGETS)}
_DECODERS: dict[Kind, Decoder[Any]] = {kind: Decoder(of) for of, kind in _KINDS.items()}


def _encode_submit(submit: Submit) -> tuple[bytes | memoryview, ...]:
    request = submit.request
    head = _SubmitHead(
        submit.number,
        submit.is_suspect,
        request.num_prompt_tokens,
        replace(request, prompt_ids=(), output_ids=()),
    )
    return _parts(head, request.prompt_ids, request.output_ids)


def _decode_submit(encoded: bytes, token_ids: TokenIds) -> Submit:
    head = _SUBMIT.decode(encoded)
    end = head.num_prompt_tokens
    if not 0 <= end <= len(token_ids):
        raise ValueError(f"{end} of {len(token_ids)} token ids cannot be the prompt's")
    request = replace(head.request, prompt_ids=token_ids[:end], output_ids=token_ids[end:])
    return Submit(head.number, request, head.is_suspect)


def _encode_invalidate(query: Invalidate) -> tuple[bytes | memoryview, ...]:
    target, token_ids = query.target, packed()
    if isinstance(target, PromptTarget):
        target, token_ids = replace(target, prompt_ids=()), packed(target.prompt_ids)
    index = _TARGETS.index(type(target))
    return _parts(_InvalidateHead(query.query_id, index, Raw(_ENCODER.encode(target))), token_ids)


def _decode_invalidate(encoded: bytes, token_ids: TokenIds) -> Invalidate:
    head = _INVALIDATE.decode(encoded)
    target: Target = _TARGET_DECODERS[head.target_index].decode(head.target)
    if isinstance(target, PromptTarget):
        target = replace(target, prompt_ids=token_ids)
    return Invalidate(head.query_id, target)


def _parts(head: object, *token_ids: Sequence[int]) -> tuple[bytes | memoryview, ...]:
    encoded = _ENCODER.encode(head)
    length = len(encoded).to_bytes(_LENGTH_BYTES, "little")
    return length, encoded, *(_as_bytes(ids) for ids in token_ids if ids)


def _as_bytes(token_ids: Sequence[int]) -> memoryview:
    if not isinstance(token_ids, array) or token_ids.typecode != "I":
        token_ids = packed(token_ids)
    return memoryview(token_ids).cast("B")


def _cut(payload: bytes) -> tuple[bytes, TokenIds]:
    """The head, and the ids behind it."""
    end = _LENGTH_BYTES + int.from_bytes(payload[:_LENGTH_BYTES], "little")
    if len(payload) < end:
        raise ValueError("it is shorter than its head")
    token_ids = array("I")
    token_ids.frombytes(memoryview(payload)[end:])  # raises for half a number
    return payload[_LENGTH_BYTES:end], token_ids
