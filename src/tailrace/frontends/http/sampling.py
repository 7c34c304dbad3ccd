"""The sampling fields of a body as `SamplingParams`."""

import re
from collections.abc import Mapping

from tailrace.errors import InvalidRequest
from tailrace.frontends.http.body import GenerationBody
from tailrace.frontends.nucleus import nucleus
from tailrace.types import SamplingParams

__all__ = ["sampling_params"]

_TOKEN_ID = re.compile(r"0|[1-9][0-9]{0,9}")


def sampling_params(body: GenerationBody, *, max_tokens: int, num_logprobs: int | None) -> SamplingParams:
    """`max_tokens` 0: as many as the context leaves. Seeds are left to the service, which has one for each choice."""
    return SamplingParams(
        max_tokens=max_tokens,
        temperature=_given(body.temperature, 1.0),
        top_p=nucleus(_given(body.top_p, 1.0)),
        top_k=max(body.top_k or 0, 0),
        min_p=body.min_p or 0.0,
        presence_penalty=body.presence_penalty or 0.0,
        frequency_penalty=body.frequency_penalty or 0.0,
        repetition_penalty=_given(body.repetition_penalty, 1.0),
        logit_bias=_logit_bias(body.logit_bias or {}),
        min_tokens=body.min_tokens or 0,
        ignore_eos=bool(body.ignore_eos),
        stop_token_ids=tuple(body.stop_token_ids or ()),
        num_logprobs=num_logprobs,
    )


def _logit_bias(given: Mapping[str, float]) -> tuple[tuple[int, float], ...]:
    for key in given:
        if not _TOKEN_ID.fullmatch(key):
            raise InvalidRequest(
                f'logit_bias has the key {key[:32]!r}; its keys are token ids, such as "15339"', param="logit_bias"
            )
    return tuple((int(key), bias) for key, bias in given.items())


def _given(value: float | None, default: float) -> float:
    return default if value is None else value
