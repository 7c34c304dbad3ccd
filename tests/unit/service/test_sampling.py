"""Sampling values: what is accepted, and that whatever is not is refused by name."""

import math
from dataclasses import fields, replace
from typing import Any

import pytest

from tailrace.errors import InvalidRequest
from tailrace.service.sampling import check_sampling, settled_temperature
from tailrace.types import SamplingParams

SAMPLING = SamplingParams(max_tokens=8)
VOCABULARY = 300


def _with(field: str, value: Any) -> SamplingParams:
    """Whatever the type."""
    return replace(SAMPLING, **{field: value})


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"max_tokens": 0, "min_tokens": 2**31 - 1},
        {"temperature": 0, "top_p": 0.0, "min_p": 1, "top_k": 2**31 - 1},
        {"temperature": 2.0, "presence_penalty": -2, "frequency_penalty": 2.0, "repetition_penalty": 0.5},
        {"logit_bias": ((0, -100.0), (299, 100)), "stop_token_ids": (299,)},
        {"num_logprobs": 20, "seed": 2**64 - 1, "ignore_eos": True},
    ],
)
def test_values_in_range_are_accepted(values: dict[str, Any]) -> None:
    check_sampling(replace(SAMPLING, **values), VOCABULARY)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_tokens", -1),
        ("max_tokens", 1.5),
        pytest.param("max_tokens", 10**5000, id="max_tokens-huge"),
        ("temperature", "a"),
        ("temperature", -1),
        ("temperature", math.nan),
        ("temperature", True),
        ("temperature", None),
        ("top_p", 5),
        ("top_p", math.inf),
        ("top_k", -1),
        ("min_p", -0.1),
        ("seed", None),
        ("presence_penalty", 2.1),
        ("frequency_penalty", [1.0]),
        ("repetition_penalty", 0),
        ("min_tokens", 9),
        ("ignore_eos", 1),
        ("num_logprobs", 100_000),
        ("num_logprobs", -1),
        ("stop_token_ids", [1]),
        ("stop_token_ids", ("1",)),
        ("stop_token_ids", (300,)),
        ("stop_token_ids", (1,) * 257),
        ("logit_bias", {1: 1.0}),
        ("logit_bias", ((1, 2, 3),)),
        ("logit_bias", ((-1, 1.0),)),
        ("logit_bias", ((1, math.nan),)),
        ("logit_bias", ((1, "a"),)),
        ("logit_bias", ((1, 1.0),) * 1025),
    ],
)
def test_a_value_of_the_wrong_type_or_size_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(InvalidRequest, match=f"^{field}") as caught:
        check_sampling(_with(field, value), VOCABULARY)
    assert caught.value.param == field
    assert len(str(caught.value)) < 200


def test_no_field_goes_unchecked() -> None:
    for field in fields(SamplingParams):
        with pytest.raises(InvalidRequest) as caught:
            check_sampling(_with(field.name, object()), VOCABULARY)
        assert caught.value.param == field.name


def test_the_message_says_what_is_and_what_has_to_be() -> None:
    with pytest.raises(InvalidRequest, match=r"^temperature is 5; it must be a number from 0 to 2$"):
        check_sampling(replace(SAMPLING, temperature=5), VOCABULARY)
    with pytest.raises(InvalidRequest, match=r"^top_k is 'x'; it must be a whole number from 0 to 2147483647$"):
        check_sampling(_with("top_k", "x"), VOCABULARY)


@pytest.mark.parametrize(("given", "settled"), [(0, 0), (1e-40, 0), (1e-6, 1e-6), (0.7, 0.7)])
def test_a_temperature_that_could_only_be_zero_is_zero(given: float, settled: float) -> None:
    assert settled_temperature(given) == settled
