"""What sampling values are accepted, whichever front end they come through: one rule for each field."""

from collections.abc import Mapping
from dataclasses import dataclass

from tailrace.errors import InvalidRequest
from tailrace.service.prompts import check_token_ids
from tailrace.types import SamplingParams

__all__ = ["WholeNumber", "check_sampling", "check_value", "settled_temperature", "shown"]

_MAX_BIASES = 1024
_MAX_STOP_TOKEN_IDS = 256
_MAX_INT32 = 2**31 - 1
_MAX_SHOWN_CHARS = 64
_GREEDY_BELOW = 1e-6  # dividing by less leaves nothing but the best token, and in the end no number


@dataclass(frozen=True, slots=True)
class Number:
    low: float
    high: float

    def admits(self, value: object) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and self.low <= value <= self.high

    def __str__(self) -> str:
        return f"a number from {self.low} to {self.high}"


@dataclass(frozen=True, slots=True)
class WholeNumber:
    low: int
    high: int
    may_be_none: bool = False

    def admits(self, value: object) -> bool:
        if value is None:
            return self.may_be_none
        return isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high

    def __str__(self) -> str:
        return f"a whole number from {self.low} to {self.high}{' or None' * self.may_be_none}"


@dataclass(frozen=True, slots=True)
class Flag:
    def admits(self, value: object) -> bool:
        return isinstance(value, bool)

    def __str__(self) -> str:
        return "True or False"


Rule = Number | WholeNumber | Flag

_COUNT = WholeNumber(0, _MAX_INT32)
_PENALTY = Number(-2, 2)
_BIAS = Number(-100, 100)
_RULES: Mapping[str, Rule] = {
    "max_tokens": _COUNT,
    "temperature": Number(0, 2),
    "top_p": Number(0, 1),
    "top_k": _COUNT,
    "min_p": Number(0, 1),
    "seed": WholeNumber(0, 2**64 - 1),
    "presence_penalty": _PENALTY,
    "frequency_penalty": _PENALTY,
    "repetition_penalty": Number(1e-6, 10),  # logits are divided by it
    "min_tokens": _COUNT,
    "ignore_eos": Flag(),
    "num_logprobs": WholeNumber(0, 20, may_be_none=True),
}


def check_sampling(sampling: SamplingParams, vocab_size: int) -> None:
    """Raises InvalidRequest, with the field, for a value of the wrong type or out of range."""
    for field, rule in _RULES.items():
        check_value(getattr(sampling, field), rule, field)
    if sampling.max_tokens and sampling.min_tokens > sampling.max_tokens:
        raise InvalidRequest(
            f"min_tokens is {sampling.min_tokens}, more than max_tokens, {sampling.max_tokens}", param="min_tokens"
        )
    _check_size(sampling.stop_token_ids, _MAX_STOP_TOKEN_IDS, "stop_token_ids")
    check_token_ids(sampling.stop_token_ids, vocab_size, "stop_token_ids")
    _check_biases(sampling, vocab_size)


def check_value(value: object, rule: Rule, field: str) -> None:
    """Raises InvalidRequest."""
    if not rule.admits(value):
        raise InvalidRequest(f"{field} is {shown(value)}; it must be {rule}", param=field)


def settled_temperature(temperature: float) -> float:
    """The temperature to compute with: 0 for one that is next to it."""
    return 0.0 if temperature < _GREEDY_BELOW else temperature


def shown(value: object) -> str:
    """A value of any type and size for a message."""
    if isinstance(value, int) and abs(value) > 10**_MAX_SHOWN_CHARS:
        return "a number too long to show"
    if isinstance(value, int | float | str | None):
        return repr(value[:_MAX_SHOWN_CHARS] if isinstance(value, str) else value)
    return f"of type {type(value).__name__}"


def _check_biases(sampling: SamplingParams, vocab_size: int) -> None:
    _check_size(sampling.logit_bias, _MAX_BIASES, "logit_bias")
    for pair in sampling.logit_bias:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InvalidRequest(
                "logit_bias must hold pairs of a token id and a number",
                param="logit_bias",
            )
    check_token_ids([token_id for token_id, _ in sampling.logit_bias], vocab_size, "logit_bias")
    for token_id, bias in sampling.logit_bias:
        if not _BIAS.admits(bias):
            raise InvalidRequest(
                f"logit_bias of token id {token_id} is {shown(bias)}; it must be {_BIAS}", param="logit_bias"
            )


def _check_size(values: object, limit: int, field: str) -> None:
    if not isinstance(values, tuple):
        raise InvalidRequest(f"{field} is {shown(values)}; it must be a tuple", param=field)
    if len(values) > limit:
        raise InvalidRequest(f"{field} has {len(values)} entries; at most {limit} can be", param=field)
