"""The words every part shares: a request, how it is sampled, and what comes back. Plain data, standard library only."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["FinishReason", "Request", "SamplingParams", "TokenEvent", "TokenLogprob"]


class FinishReason(StrEnum):
    """Why a sequence ended. The values are the ones OpenAI clients know, plus `abort` and `error`."""

    STOP = "stop"  # an end-of-sequence or stop token
    LENGTH = "length"  # max_tokens, or the model's context, is used up
    ABORT = "abort"  # the client went away or cancelled
    ERROR = "error"  # the engine failed; the stream carries an error


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
class Request:
    """One sequence to compute: `n` choices of a client are `n` requests.

    `output_ids` are tokens already delivered: a request handed back after a crash goes on behind them.
    """

    request_id: str
    prompt_ids: Sequence[int]
    sampling: SamplingParams
    arrival_s: float = 0.0  # monotonic
    cache_salt: str = ""  # tenants with different salts share no cached block
    output_ids: Sequence[int] = field(default=())

    @property
    def num_prompt_tokens(self) -> int:
        return len(self.prompt_ids)


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    token_id: int
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """One token of one request, or its end without a token (`token_id` None).

    `num_cached_tokens` says how much of the prompt came from the cache; it is constant over a request.
    """

    request_id: str
    token_id: int | None
    num_cached_tokens: int = 0
    finish_reason: FinishReason | None = None
    logprob: float | None = None
    top_logprobs: tuple[TokenLogprob, ...] = ()
    error: str | None = None
