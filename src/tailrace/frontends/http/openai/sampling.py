"""The sampling fields of a body as `SamplingParams`."""

import secrets

from tailrace.errors import InvalidRequest
from tailrace.frontends.http.openai.schema import SamplingBody
from tailrace.service.api import ModelCard
from tailrace.types import SamplingParams

__all__ = ["check_token_id", "sampling_params"]

_SMALLEST_TOP_P = 1e-9  # top_p 0 asks for the best token alone


def sampling_params(
    body: SamplingBody, *, max_tokens: int, num_logprobs: int | None, model: ModelCard
) -> SamplingParams:
    """`max_tokens` 0: as many as the context leaves. Raises InvalidRequest where fields contradict each other."""
    min_tokens = body.min_tokens or 0
    if max_tokens and min_tokens > max_tokens:
        raise InvalidRequest(f"min_tokens {min_tokens} is above max_tokens {max_tokens}.", param="min_tokens")
    return SamplingParams(
        max_tokens=max_tokens,
        temperature=_given(body.temperature, 1.0),
        top_p=max(_given(body.top_p, 1.0), _SMALLEST_TOP_P),
        top_k=max(body.top_k or 0, 0),
        min_p=body.min_p or 0.0,
        seed=_seed(body.seed),
        presence_penalty=body.presence_penalty or 0.0,
        frequency_penalty=body.frequency_penalty or 0.0,
        repetition_penalty=_given(body.repetition_penalty, 1.0),
        logit_bias=_logit_bias(body.logit_bias or {}, model),
        min_tokens=min_tokens,
        ignore_eos=bool(body.ignore_eos),
        stop_token_ids=tuple(
            check_token_id(token_id, model, "stop_token_ids") for token_id in body.stop_token_ids or ()
        ),
        num_logprobs=num_logprobs,
    )


def _given(value: float | None, default: float) -> float:
    return default if value is None else value


def _seed(seed: int | None) -> int:
    """The client's seed as 64 unsigned bits, or a fresh one."""
    return secrets.randbits(64) if seed is None else seed & (2**64 - 1)


def _logit_bias(bias: dict[int, float], model: ModelCard) -> tuple[tuple[int, float], ...]:
    return tuple((check_token_id(token_id, model, "logit_bias"), value) for token_id, value in bias.items())


def check_token_id(token_id: int, model: ModelCard, param: str) -> int:
    """The id. Raises InvalidRequest if it is not in the vocabulary."""
    if not 0 <= token_id < model.vocab_size:
        raise InvalidRequest(
            f"Token id {token_id} in {param} is not in the vocabulary; ids go from 0 to {model.vocab_size - 1}.",
            param=param,
        )
    return token_id
