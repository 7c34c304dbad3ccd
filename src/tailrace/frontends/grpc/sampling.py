"""How an answer is drawn, as both protocols say it: the fields have the same names, but not the same defaults."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from tailrace.frontends.nucleus import nucleus
from tailrace.types import SamplingParams

__all__ = ["SamplingMessage", "sampling_of"]


class SamplingMessage(Protocol):
    """The fields of which 0 means that there is nothing of it."""

    @property
    def top_k(self) -> int: ...
    @property
    def min_p(self) -> float: ...
    @property
    def presence_penalty(self) -> float: ...
    @property
    def frequency_penalty(self) -> float: ...
    @property
    def logit_bias(self) -> Mapping[int, float]: ...
    @property
    def min_tokens(self) -> int: ...
    @property
    def ignore_eos(self) -> bool: ...
    @property
    def stop_token_ids(self) -> Iterable[int]: ...


def sampling_of(
    given: SamplingMessage,
    *,
    max_tokens: int,
    temperature: float | None,
    top_p: float | None,
    repetition_penalty: float | None,
    num_logprobs: int | None,
    meant: Callable[[float], float] = float,
) -> SamplingParams:
    """None stands for what was not sent. `meant` makes of a number of the wire what its client meant."""
    return SamplingParams(
        max_tokens=max_tokens,
        temperature=1.0 if temperature is None else meant(temperature),
        top_p=1.0 if top_p is None else nucleus(meant(top_p)),
        top_k=given.top_k,
        min_p=meant(given.min_p),
        presence_penalty=meant(given.presence_penalty),
        frequency_penalty=meant(given.frequency_penalty),
        repetition_penalty=1.0 if repetition_penalty is None else meant(repetition_penalty),
        logit_bias=tuple((token_id, meant(bias)) for token_id, bias in given.logit_bias.items()),
        min_tokens=given.min_tokens,
        ignore_eos=given.ignore_eos,
        stop_token_ids=tuple(given.stop_token_ids),
        num_logprobs=num_logprobs,
    )
