"""The words every part shares: a request, how it is sampled, and what comes back. Plain data, standard library only."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from tailrace.errors import Overloaded, RefusalReason, TailraceError, UnavailableError

__all__ = [
    "Beginning",
    "BlockTarget",
    "CacheAnswer",
    "CacheQuery",
    "Explain",
    "Explanation",
    "FinishReason",
    "Guide",
    "Invalidate",
    "Invalidated",
    "Level",
    "LevelMode",
    "MissReason",
    "ModelTarget",
    "OpTime",
    "PreemptionCause",
    "PrefixReport",
    "PromptChunk",
    "PromptTarget",
    "Refusal",
    "Request",
    "SamplingParams",
    "Target",
    "TenantTarget",
    "TokenEvent",
    "TokenIds",
    "TokenLogprob",
    "packed",
]

TokenIds: TypeAlias = "array[int]"  # 4 bytes a token, and no object: the collector has nothing to visit


def packed(*parts: Sequence[int]) -> TokenIds:
    """The ids of all parts in one buffer of unsigned numbers of 4 bytes. Raises OverflowError for one that is not."""
    token_ids = array("I")
    for part in parts:
        token_ids += array("I", part)
    return token_ids


class FinishReason(StrEnum):
    """Why a sequence ended. The values are the ones OpenAI clients know, plus `abort` and `error`."""

    STOP = "stop"  # an end-of-sequence or stop token
    LENGTH = "length"  # max_tokens, or the model's context, is used up
    ABORT = "abort"  # the client went away or cancelled
    ERROR = "error"  # the engine failed; the stream carries an error
    TOOL_CALLS = "tool_calls"  # as STOP, of an answer that calls tools: the text side finds that out


class PreemptionCause(StrEnum):
    """Why a running request was sent back to the queue."""

    ROOM = "room"  # a stream needed a block, and there was none
    DEADLINE = "deadline"  # the first token of one of a better class would have come too late


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token of one sequence is chosen. Stop *strings* are text and live in `service`."""

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0  # 0: no limit
    min_p: float = 0.0
    seed: int = 0  # the generator is keyed by (seed, position); intake draws one where the client gave none
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    min_tokens: int = 0
    ignore_eos: bool = False
    stop_token_ids: tuple[int, ...] = ()
    num_logprobs: int | None = None  # None: none wanted; 0: of the chosen token only; n: n best besides

    @property
    def needs_history(self) -> bool:
        """Whether the tokens so far change the logits."""
        return self.repetition_penalty != 1.0 or self.presence_penalty != 0.0 or self.frequency_penalty != 0.0


@dataclass(frozen=True, slots=True)
class Guide:
    """What an answer must look like: a grammar, in Lark as llguidance reads it."""

    grammar: str


@dataclass(frozen=True, slots=True)
class Request:
    """One sequence to compute: `n` choices of a client are `n` requests.

    `output_ids` are tokens already delivered: a request handed back after a crash goes on behind them.
    `class_name` is that of its service class; empty: the default one. None for a target means: that of its class.
    """

    request_id: str
    prompt_ids: Sequence[int]
    sampling: SamplingParams
    arrival_s: float = 0.0  # monotonic
    cache_salt: str = ""  # tenants with different salts share no cached block
    output_ids: Sequence[int] = field(default=())
    is_warmup: bool = False  # nobody asked: computed so that others find its blocks
    class_name: str = ""
    tenant: str = ""  # who shares a class fairly with whom
    ttft_s: float | None = None  # its own targets
    itl_s: float | None = None
    queue_ttl_s: float | None = None  # refused when it has not started by then
    is_resumed: bool = False  # it was let in before: handed back after a crash, with the time when it first arrived
    guide: Guide | None = None  # tokens that it does not allow are never chosen
    trace: str = ""  # the W3C traceparent of the span that waits for it; empty: nobody traces it

    @property
    def num_prompt_tokens(self) -> int:
        return len(self.prompt_ids)


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    token_id: int
    logprob: float


class Level(StrEnum):
    """Where keys and values live, nearest first."""

    ENGINE = "engine"
    HOST = "host"
    DISK = "disk"
    REDIS = "redis"


class LevelMode(StrEnum):
    """How a level below the engine is used."""

    NORMAL = "normal"
    ASYNCHRONOUS = "asynchronous"  # nobody waits for it: what it has is fetched behind a request, for the next one
    BYPASSED = "bypassed"  # neither looked up nor saved to, but for a small sample of requests, which do not wait


class MissReason(StrEnum):
    """Why the first block that had to be computed was not found."""

    NEVER_SEEN = "never_seen"
    EVICTED = "evicted"  # another request needed the room
    EXPIRED = "expired"  # nobody used it for its time to live
    RELEASED = "released"  # idle for long, its memory was given back to the system
    INVALIDATED = "invalidated"
    OTHER_SALT = "other_salt"  # seen, for another tenant
    OTHER_FINGERPRINT = "other_fingerprint"  # seen, with other weights or another KV format
    SHORTER_THAN_BLOCK = "shorter_than_block"  # what is left to find is less than a block
    LEVEL_DOWN = "level_down"  # a level that may hold it did not answer
    LEVEL_BYPASSED = "level_bypassed"  # a rule lets no request wait for a level that may hold it
    SLOWER_THAN_RECOMPUTE = "slower_than_recompute"  # a level holds it, but computing takes less time


@dataclass(frozen=True, slots=True)
class PrefixReport:
    """How much of a prompt needed no computing, from which level, and why it was not more.

    `reason` is None when nothing was missing but the last token, whose logits are wanted. `removed_s_ago` and
    `removed_by` (a request id) are known for some reasons.
    """

    num_tokens: tuple[tuple[Level, int], ...]  # levels that gave nothing are left out
    reason: MissReason | None
    removed_s_ago: float | None = None
    removed_by: str | None = None

    @property
    def num_cached_tokens(self) -> int:
        return sum(count for _, count in self.num_tokens)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request was not served, though it might have been at another time."""

    reason: RefusalReason | None  # None: there is nobody to serve it, for a while
    message: str
    retry_after_s: float

    @property
    def error(self) -> TailraceError:
        """It as what a caller gets."""
        if self.reason is None:
            return UnavailableError(self.message, retry_after_s=self.retry_after_s)
        return Overloaded(self.message, retry_after_s=self.retry_after_s, reason=self.reason)


class PromptChunk(NamedTuple):
    """Tokens of one prompt that one step computed, from when it was planned to when the device was done."""

    planned_s: float
    computed_s: float
    num_tokens: int


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a request came to its first token, in the machine's monotonic seconds. `fetch_s` is a part of the queue."""

    taken_s: float  # out of the engine's inbox
    started_s: float  # planned for the first time
    computed_s: float  # the first token was drawn
    fetch_s: float = 0.0  # waited for levels below the engine
    chunks: tuple[PromptChunk, ...] = ()  # the first ones, where there are very many
    num_preemptions: int = 0


class OpTime(NamedTuple):
    """What the stages of one kind did in one step, of all layers together."""

    name: str  # of few
    seconds: float
    num_bytes: float  # that had to be moved to and from memory
    num_ops: float  # multiplications and additions


class TokenEvent(NamedTuple):
    """One token of one request, or its end without a token (`token_id` None).

    A tuple: there is one for each sequence in each step. `prefix` says what of the prompt came from the cache; it is
    constant from a request's first token on. `beginning` comes with that token alone.
    """

    request_id: str
    token_id: int | None
    prefix: PrefixReport | None = None
    finish_reason: FinishReason | None = None
    logprob: float | None = None
    top_logprobs: tuple[TokenLogprob, ...] = ()
    error: str | None = None
    refusal: Refusal | None = None  # with FinishReason.ERROR, before any token
    beginning: Beginning | None = None

    @property
    def num_cached_tokens(self) -> int:
        return 0 if self.prefix is None else self.prefix.num_cached_tokens


@dataclass(frozen=True, slots=True)
class BlockTarget:
    """The one block of this name."""

    name: bytes


@dataclass(frozen=True, slots=True)
class PromptTarget:
    """The whole blocks of a prompt, and all blocks that continue it, for whoever has this salt."""

    prompt_ids: Sequence[int]
    cache_salt: str = ""


@dataclass(frozen=True, slots=True)
class TenantTarget:
    """Everything that was computed under this salt."""

    cache_salt: str


@dataclass(frozen=True, slots=True)
class ModelTarget:
    """Everything of the model with this fingerprint; None: of the model that is served."""

    fingerprint: bytes | None = None


Target = BlockTarget | PromptTarget | TenantTarget | ModelTarget


@dataclass(frozen=True, slots=True)
class Explain:
    """Asks what the cache would give a prompt that came now. Counts as no use of it."""

    query_id: int
    prompt_ids: Sequence[int]
    cache_salt: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    query_id: int
    num_prompt_tokens: int
    prefix: PrefixReport
    block_tokens: int
    names: tuple[bytes, ...]  # of the whole blocks of the prompt, cached or not
    fingerprint: bytes  # of the served model


@dataclass(frozen=True, slots=True)
class Invalidate:
    """Asks the cache to forget: none of it is given to anybody from the next step on."""

    query_id: int
    target: Target


@dataclass(frozen=True, slots=True)
class Invalidated:
    """How many blocks each level dropped; None: it is told, and has not said yet.

    `version` counts what this engine was asked to forget. With `num_forgets` 0 there was nothing to name: the prompt is
    shorter than a block, of `block_tokens`.
    """

    query_id: int
    num_forgets: int
    num_dropped: tuple[tuple[Level, int | None], ...]
    version: int
    block_tokens: int
    took_s: float


CacheQuery = Explain | Invalidate
CacheAnswer = Explanation | Invalidated
