"""The sampling fields of a body as `SamplingParams`."""

from tailrace.frontends.http.openai.schema import SamplingBody
from tailrace.types import SamplingParams

__all__ = ["sampling_params"]

_SMALLEST_TOP_P = 1e-9  # top_p 0 asks for the best token alone


def sampling_params(body: SamplingBody, *, max_tokens: int, num_logprobs: int | None) -> SamplingParams:
    """`max_tokens` 0: as many as the context leaves. Seeds are left to the service, which has one for each choice."""
    return SamplingParams(
        max_tokens=max_tokens,
        temperature=_given(body.temperature, 1.0),
        top_p=max(_given(body.top_p, 1.0), _SMALLEST_TOP_P),
        top_k=max(body.top_k or 0, 0),
        min_p=body.min_p or 0.0,
        presence_penalty=body.presence_penalty or 0.0,
        frequency_penalty=body.frequency_penalty or 0.0,
        repetition_penalty=_given(body.repetition_penalty, 1.0),
        logit_bias=tuple((body.logit_bias or {}).items()),
        min_tokens=body.min_tokens or 0,
        ignore_eos=bool(body.ignore_eos),
        stop_token_ids=tuple(body.stop_token_ids or ()),
        num_logprobs=num_logprobs,
    )


def _given(value: float | None, default: float) -> float:
    return default if value is None else value
