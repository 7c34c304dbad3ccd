"""What is said in shared memory: kinds of messages, and their content as msgpack. Both sides speak by this module.

    up      ASK       a byte: the lane; an `Ask`             the lane must be free
            CANCEL    a byte: the lane                       harmless when its answer has ended
            WATCH     a byte: the lane                       news of this answer are to be said in the pipe, too
    down    BEGUN     number of prompt tokens                in the lane of the ask, before anything of the answer
            DELTA     an `AnswerDelta`                       in order; one choice ends with its finish_reason
            PART      bytes                                  of the next message, which is too long for one
            END       an `AnswerUsage`                       the last message; after it the lane is free
            FAILED    a `Failure`                            as END, when there was no answer, or not all of it

Structs are arrays, in the order of their fields; what is left out at the end has its default, so that fields can be
added. A request is a map, since most of its fields are left out.
"""

from enum import IntEnum
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field, msgpack

from tailrace.errors import (
    ContextTooLong,
    EngineError,
    InvalidRequest,
    ModelNotFound,
    Overloaded,
    RefusalReason,
    RequestError,
    TailraceError,
    UnavailableError,
)
from tailrace.frontends.chat_options import ChatOptions
from tailrace.frontends.values import TokenId
from tailrace.service.api import CallDelta, ChoiceDelta, TextLogprob, Usage
from tailrace.types import FinishReason, Level, MissReason

__all__ = [
    "DELTAS",
    "FAILURES",
    "USAGES",
    "AnswerDelta",
    "AnswerUsage",
    "Ask",
    "Down",
    "Failure",
    "Up",
    "encode_delta",
    "encode_failure",
    "encode_usage",
    "packed",
]


class Up(IntEnum):
    """Kinds of messages of a client."""

    ASK = 1
    CANCEL = 2
    WATCH = 3


class Down(IntEnum):
    """Kinds of messages of the server."""

    BEGUN = 1
    DELTA = 2
    PART = 3
    END = 4
    FAILED = 5


_MAX_MESSAGE_CHARS = 2000  # of an error, which must fit into a lane in one piece

Seconds = Annotated[float, Meta(gt=0)]


class Ask(ChatOptions, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A request: a prompt of text (with a suffix, what belongs between), or messages; and how to answer.

    The names are those of the HTTP front end; how far a number may go, the service says for all of them.
    """

    prompt: str | None = None
    suffix: str = ""
    n: int = 1
    max_tokens: int = 0  # as many as the context leaves
    min_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Annotated[dict[TokenId, float], Meta(max_length=1024)] = field(default_factory=dict)
    stop: Annotated[list[str], Meta(max_length=64)] = field(default_factory=list)
    stop_token_ids: Annotated[list[TokenId], Meta(max_length=256)] = field(default_factory=list)
    ignore_eos: bool = False
    logprobs: int | None = None  # of the chosen token, and so many of the best besides
    service_class: str = ""
    tenant: Annotated[str, Meta(max_length=128)] = ""


class AnswerLogprob(Struct, array_like=True, frozen=True):
    """A `TextLogprob`."""

    token_id: int
    token: str
    raw: bytes
    logprob: float
    top: list["AnswerLogprob"] = []
    offset: int = 0
    is_reasoning: bool = False

    def to_text_logprob(self) -> TextLogprob:
        top = tuple([each.to_text_logprob() for each in self.top])
        return TextLogprob(self.token_id, self.token, self.raw, self.logprob, top, self.offset, self.is_reasoning)


class AnswerCall(Struct, array_like=True, frozen=True):
    """A `CallDelta`."""

    index: int
    arguments: str
    call_id: str = ""
    name: str = ""

    def to_call_delta(self) -> CallDelta:
        return CallDelta(self.index, self.arguments, self.call_id, self.name)


class AnswerDelta(Struct, array_like=True, frozen=True):
    """A `ChoiceDelta`. Most are the first three fields."""

    index: int
    text: str
    token_ids: tuple[int, ...] = ()
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None
    error: str | None = None
    logprobs: list[AnswerLogprob] = []
    reasoning: str = ""
    calls: list[AnswerCall] = []

    def to_choice_delta(self) -> ChoiceDelta:
        logprobs = tuple([each.to_text_logprob() for each in self.logprobs])
        return ChoiceDelta(
            self.index,
            self.text,
            self.token_ids,
            logprobs,
            self.finish_reason,
            self.stop_reason,
            self.error,
            self.reasoning,
            tuple([each.to_call_delta() for each in self.calls]),
        )


class AnswerUsage(Struct, array_like=True, frozen=True):
    """A `Usage`."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    found: list[tuple[Level, int]] = []
    miss_reason: MissReason | None = None
    reasoning_tokens: int = 0

    def to_usage(self) -> Usage:
        return Usage(
            self.prompt_tokens,
            self.completion_tokens,
            self.cached_tokens,
            tuple(self.found),
            self.miss_reason,
            self.reasoning_tokens,
        )


FailureKind = Literal["invalid", "context", "model", "overloaded", "request", "unavailable", "engine"]


class Failure(Struct, array_like=True, frozen=True):
    """An error, which is raised at the client as what it was at the server."""

    kind: FailureKind
    message: str
    param: str | None = None
    code: str | None = None
    retry_after_s: float | None = None

    def to_error(self) -> TailraceError:
        if self.kind == "engine":
            return EngineError(self.message)
        if self.kind == "unavailable":
            return UnavailableError(self.message, retry_after_s=self.retry_after_s)
        if self.kind == "overloaded":
            reason = RefusalReason(self.code) if self.code in set(RefusalReason) else RefusalReason.QUEUE_FULL
            return Overloaded(self.message, retry_after_s=self.retry_after_s or 0.0, reason=reason)
        return _REQUEST_ERRORS[self.kind](self.message, param=self.param, code=self.code)


_REQUEST_ERRORS: dict[str, type[RequestError]] = {
    "invalid": InvalidRequest,
    "context": ContextTooLong,
    "model": ModelNotFound,
    "request": RequestError,
}

DELTAS = msgpack.Decoder(AnswerDelta)
USAGES = msgpack.Decoder(AnswerUsage)
FAILURES = msgpack.Decoder(Failure)
packed = msgpack.Encoder().encode


def encode_delta(delta: ChoiceDelta) -> bytes:
    """As an `AnswerDelta`."""
    if delta.finish_reason is None and not (delta.logprobs or delta.reasoning or delta.calls):
        return packed((delta.index, delta.text, delta.token_ids))
    logprobs = [_logprob(each) for each in delta.logprobs]
    return packed(
        (
            delta.index,
            delta.text,
            delta.token_ids,
            delta.finish_reason,
            delta.stop_reason,
            delta.error,
            logprobs,
            delta.reasoning,
            [(call.index, call.arguments, call.call_id, call.name) for call in delta.calls],
        )
    )


def encode_usage(usage: Usage) -> bytes:
    """As an `AnswerUsage`."""
    return packed(
        (
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.cached_tokens,
            usage.found,
            usage.miss_reason,
            usage.reasoning_tokens,
        )
    )


def encode_failure(error: TailraceError) -> bytes:
    """As a `Failure`; what is no error of a request or of the moment is an engine's."""
    message = str(error)[:_MAX_MESSAGE_CHARS]
    if isinstance(error, UnavailableError):
        return packed(Failure("unavailable", message, retry_after_s=error.retry_after_s))
    if isinstance(error, Overloaded):
        return packed(Failure("overloaded", message, code=error.code, retry_after_s=error.retry_after_s))
    if isinstance(error, RequestError):
        return packed(Failure(_kind_of(error), message, error.param, error.code))
    return packed(Failure("engine", message))


def _kind_of(error: RequestError) -> FailureKind:
    if isinstance(error, ContextTooLong):
        return "context"
    if isinstance(error, ModelNotFound):
        return "model"
    return "invalid" if isinstance(error, InvalidRequest) else "request"


def _logprob(given: TextLogprob) -> tuple[Any, ...]:
    top = [_logprob(each) for each in given.top]
    return given.token_id, given.token, given.raw, given.logprob, top, given.offset, given.is_reasoning
