"""Bodies of responses to generations: what is obeyed, what passes without effect, and what is refused by name."""

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import ModelNotFound, RequestError
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.job import Job
from tailrace.frontends.http.responses.fields import RESPONSE_FIELDS
from tailrace.frontends.http.responses.request import decode_response
from tailrace.frontends.http.responses.schema import ResponseBody
from tailrace.service.api import ChatPrompt, Generation
from tests.support.scripted_service import MODEL

USER = {"role": "user", "content": "Hi"}


def job(**fields: object) -> Job:
    return decode_response(json.dumps({"input": "Hi"} | fields).encode(), "r", MODEL, HttpConfig())


def generation(**fields: object) -> Generation:
    (only,) = job(**fields).generations
    return only


def messages(**fields: object) -> list[object]:
    prompt = generation(**fields).prompt
    assert isinstance(prompt, ChatPrompt)
    assert prompt.param == "input"
    assert prompt.add_generation_prompt
    return list(prompt.messages)


def refusal(**fields: object) -> RequestError:
    with pytest.raises(RequestError) as caught:
        job(**fields)
    return caught.value


def part(text: str, kind: str = "input_text", **fields: object) -> dict[str, object]:
    return {"type": kind, "text": text, **fields}


def test_a_bare_response_gets_the_defaults_of_the_api() -> None:
    bare = generation()
    assert messages() == [USER]
    assert bare.sampling.max_tokens == 0  # as many as the context leaves
    assert (bare.sampling.temperature, bare.sampling.top_p, bare.sampling.num_logprobs) == (1.0, 1.0, None)
    assert (bare.n, bare.stop, bare.seed, bare.cache_salt) == (1, (), None, "")
    assert bare.ends_with_context  # the API calls max_output_tokens an upper bound
    assert not job().is_streamed


def test_sampling_fields_arrive() -> None:
    given = generation(temperature=0.5, top_p=0.9, max_output_tokens=5, top_k=3, seed=7, stop="###")
    sampling = given.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.max_tokens) == (0.5, 0.9, 3, 5)
    assert (given.stop, given.seed) == (("###",), 7)
    assert generation(stop=["a", "b"]).stop == ("a", "b")
    assert job(stream=True).is_streamed


@pytest.mark.parametrize(
    ("fields", "number"),
    [
        ({}, None),
        ({"include": []}, None),
        ({"include": ["reasoning.encrypted_content"]}, None),
        ({"include": ["message.output_text.logprobs"]}, 0),
        ({"top_logprobs": 3}, 3),
        ({"top_logprobs": 0}, None),
        ({"top_logprobs": 2, "include": ["message.output_text.logprobs"]}, 2),
    ],
)
def test_log_probabilities_are_asked_for_in_two_ways(fields: dict[str, object], number: int | None) -> None:
    assert generation(**fields).sampling.num_logprobs == number


def test_instructions_come_first() -> None:
    assert messages(instructions="Be brief.") == [{"role": "system", "content": "Be brief."}, USER]
    assert messages(instructions="") == messages(instructions=None) == [USER]


def test_a_conversation_is_sent_as_items() -> None:
    """As people write it, as `client.responses` types it, and as an earlier answer comes back."""
    answer = {
        "type": "message",
        "id": "msg_1",
        "status": "completed",
        "role": "assistant",
        "content": [part("Ho", "output_text", annotations=[], logprobs=[])],
        "phase": None,
    }
    items = [
        {"role": "developer", "content": "Be brief."},
        {"type": "message", "role": "user", "content": [part("a"), part("b", prompt_cache_breakpoint=None)]},
        answer,
        USER,
    ]
    assert messages(input=items) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "a\nb"},
        {"role": "assistant", "content": "Ho"},
        USER,
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"store": False},
        {"store": None},
        {"tools": []},
        {"tool_choice": "auto"},
        {"parallel_tool_calls": True},
        {"truncation": "disabled"},
        {"truncation": "auto"},  # what is too long is refused all the same, and the answer says "disabled"
        {"text": {"format": {"type": "text"}}},
        {"text": {"verbosity": "medium"}},
        {"reasoning": {"effort": "none"}},
        {"reasoning": {}},
        {"background": False},
        {"previous_response_id": None},
        {"stream_options": {"include_obfuscation": False}},
        {"metadata": {"a": "b"}},
        {"prompt_cache_key": "k"},
        {"safety_identifier": "s", "user": "u"},
        {"max_tool_calls": 3},
    ],
)
def test_what_asks_for_nothing_passes(fields: dict[str, object]) -> None:
    assert generation(**fields) == generation()


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"store": True}, "store"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"background": True}, "background"),
        ({"tools": [{"type": "function", "name": "f"}]}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"reasoning": {"effort": "high"}}, "reasoning"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format"),
        ({"text": {"verbosity": "low"}}, "text.verbosity"),
        ({"text": {"colour": "red"}}, "text.colour"),
        ({"stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
        ({"truncation": "middle"}, "truncation"),
        ({"include": ["everything"]}, "include[0]"),
        ({"max_tokens": 5}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"frobnicate": 1}, "frobnicate"),
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}, "input[0].type"),
        ({"input": [{"type": "reasoning", "id": "rs_1", "summary": []}]}, "input[0].type"),
        ({"input": [{"type": 1}]}, "input[0].type"),
        ({"input": [USER, {"role": "tool", "content": "x"}]}, "input[1].role"),
        ({"input": [{"role": "user"}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": ["x"]}]}, "input[0].content"),
        ({"input": [USER | {"name": "n"}]}, "input[0].name"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0]"),
        ({"input": [{"role": "user", "content": [part("x", a=1)]}]}, "input[0].content[0].a"),
        ({"metadata": {"k": "v" * 513}}, "metadata[...]"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(fields: dict[str, object], param: str) -> None:
    error = refusal(**fields)
    assert error.status == 400
    assert error.param == param


def test_another_model_is_refused() -> None:
    with pytest.raises(ModelNotFound, match="gpt"):
        job(model="gpt")
    assert generation(model="default") == generation(model="tiny") == generation()


def test_a_field_is_in_one_place() -> None:
    obeyed = set(ResponseBody.__struct_fields__)
    assert not obeyed & RESPONSE_FIELDS.accepted.keys()
    assert not obeyed & RESPONSE_FIELDS.refused.keys()
    assert not RESPONSE_FIELDS.accepted.keys() & RESPONSE_FIELDS.refused.keys()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(sorted({*ResponseBody.__struct_fields__, *RESPONSE_FIELDS.refused, "other"}))
ITEMS = st.lists(st.dictionaries(st.sampled_from(["type", "role", "content", "id"]), VALUES), max_size=3)


@settings(max_examples=300)
@given(st.dictionaries(NAMES, VALUES, max_size=3), ITEMS)
def test_any_body_is_decoded_or_refused(fields: dict[str, object], items: list[object]) -> None:
    with suppress(RequestError):
        job(**({"input": items} | fields))
