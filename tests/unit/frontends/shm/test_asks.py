"""Requests of clients in shared memory: what is right becomes a generation, what is wrong is refused by its field."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import msgpack

from tailrace.classes import STANDARD
from tailrace.errors import InvalidRequest
from tailrace.frontends.shm.asks import decode_ask, field_name
from tailrace.service.api import (
    ChatPrompt,
    Generation,
    InfillPrompt,
    OutputFormat,
    OutputKind,
    Prompt,
    Standing,
    TextPrompt,
    Tool,
    ToolChoice,
    ToolMode,
)
from tailrace.types import SamplingParams

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        *("prompt", "messages", "suffix", "n", "stop", "seed", "temperature", "logit_bias", "stop_token_ids", "tenant"),
        *("tools", "tool_choice", "thinking", "reasoning_effort", "response_format", "structured_outputs", "x"),
    ]
)


CHAT = {"messages": [{"role": "user", "content": "Hi"}]}
LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def decode(**fields: Any) -> Generation:
    return decode_ask(memoryview(msgpack.encode(fields)), "r1", STANDARD)


def test_every_field_reaches_the_generation() -> None:
    generation = decode(
        prompt="Hi",
        n=2,
        max_tokens=7,
        min_tokens=1,
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        min_p=0.1,
        seed=-3,
        presence_penalty=0.1,
        frequency_penalty=0.2,
        repetition_penalty=1.1,
        logit_bias={5: -1.0},
        stop=["\n"],
        stop_token_ids=[9],
        ignore_eos=True,
        logprobs=3,
        service_class="gold",
        tenant="me",
    )
    sampling = SamplingParams(
        max_tokens=7,
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        min_p=0.1,
        presence_penalty=0.1,
        frequency_penalty=0.2,
        repetition_penalty=1.1,
        logit_bias=((5, -1.0),),
        min_tokens=1,
        ignore_eos=True,
        stop_token_ids=(9,),
        num_logprobs=3,
    )
    assert generation == Generation(
        "r1", TextPrompt("Hi"), sampling, n=2, stop=("\n",), seed=-3, standing=Standing("gold", "me")
    )


@pytest.mark.parametrize(
    ("fields", "prompt"),
    [
        ({"prompt": ""}, TextPrompt("")),
        ({"prompt": "def f(", "suffix": "return 1"}, InfillPrompt("def f(", "return 1")),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]},
            ChatPrompt([{"role": "user", "content": "Hi"}]),
        ),
    ],
)
def test_a_prompt_is_text_or_messages(fields: dict[str, Any], prompt: Prompt) -> None:
    assert decode(**fields).prompt == prompt


def test_tools_thinking_and_formats_reach_the_generation() -> None:
    wishes = {"tools": [LOOK], "tool_choice": "required", "parallel_tool_calls": False, "reasoning_effort": "high"}
    assert decode(**CHAT, **wishes).prompt == ChatPrompt(
        [{"role": "user", "content": "Hi"}],
        tools=(Tool("look", parameters={"type": "object"}),),
        tool_choice=ToolChoice(ToolMode.REQUIRED, is_parallel=False),
        effort="high",
    )
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
    wanted = decode(prompt="a", response_format=schema).output_format
    assert wanted == OutputFormat(
        OutputKind.JSON_SCHEMA, '{"type":"object"}', param="response_format.json_schema.schema"
    )
    constrained = decode(**CHAT, structured_outputs={"choice": ["a", "b"]}).output_format
    assert constrained == OutputFormat(OutputKind.CHOICE, choices=("a", "b"), param="structured_outputs.choice")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "prompt"),
        ({"prompt": "a", "messages": [{"role": "user", "content": "a"}]}, "prompt"),
        ({"prompt": 5}, "prompt"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": {"deep": 1}}]}, "messages[0].content"),
        ({"messages": [{"role": "king", "content": "a"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": "a", "colour": "red"}]}, "messages[0].colour"),
        ({"messages": [{"role": "tool", "content": "a", "tool_call_id": "c"}]}, "messages[0].tool_call_id"),
        ({"prompt": "a", "tools": [LOOK]}, "tools"),
        ({"prompt": "a", "thinking": False}, "thinking"),
        (CHAT | {"tools": [{"type": "web_search"}]}, "tools[0].type"),
        (CHAT | {"tools": [LOOK], "tool_choice": "sometimes"}, "tool_choice"),
        (CHAT | {"tool_choice": "required"}, "tool_choice"),
        (CHAT | {"reasoning_effort": "huge"}, "reasoning_effort"),
        (CHAT | {"thinking": "yes"}, "thinking"),
        (CHAT | {"response_format": {"type": "yaml"}}, "response_format.type"),
        (CHAT | {"response_format": {"type": "json_object"}, "ignore_eos": True}, "ignore_eos"),
        ({"prompt": "a", "structured_outputs": {"regex": "a", "json_object": True}}, "structured_outputs"),
        ({"messages": [{"role": "user", "content": "a"}], "suffix": "b"}, "suffix"),
        ({"prompt": "a", "temperature": "hot"}, "temperature"),
        ({"prompt": "a", "n": True}, "n"),
        ({"prompt": "a", "stop": "a"}, "stop"),
        ({"prompt": "a", "stop_token_ids": [-1]}, "stop_token_ids[0]"),
        ({"prompt": "a", "logit_bias": {"5": 1.0}}, "logit_bias"),
        ({"prompt": "a", "tenant": "x" * 129}, "tenant"),
        ({"prompt": "a", "best_of": 2}, "best_of"),
    ],
)
def test_what_is_wrong_is_refused_by_its_field(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        decode(**fields)
    assert refused.value.param == param


@pytest.mark.parametrize(("top_p", "taken"), [(0.0, 1e-9), (1e-12, 1e-9), (1e-9, 1e-9), (0.3, 0.3), (-0.1, -0.1)])
def test_who_sends_top_p_0_wants_the_best_token_as_everywhere(top_p: float, taken: float) -> None:
    assert decode(prompt="a", top_p=top_p).sampling.top_p == taken


@pytest.mark.parametrize(
    ("word", "class_name"),
    [("", "silver"), ("auto", "silver"), ("priority", "gold"), ("flex", "bronze"), ("bronze", "bronze")],
)
def test_a_class_is_named_by_the_words_of_a_service_tier(word: str, class_name: str) -> None:
    assert decode(prompt="a", service_class=word).standing.class_name == class_name


def test_a_class_that_is_none_is_refused_in_the_words_of_every_front_end() -> None:
    with pytest.raises(InvalidRequest, match="there is no service tier 'platinum', but auto, ") as refused:
        decode(prompt="a", service_class="platinum")
    assert refused.value.param is not None
    assert field_name(refused.value.param) == "service_class"
    assert field_name("num_logprobs") == "logprobs"
    assert field_name("top_p") == "top_p"


@given(st.binary() | st.dictionaries(FIELDS, JSON, max_size=6).map(msgpack.encode))
def test_whatever_comes_is_refused_or_a_generation(content: bytes) -> None:
    with contextlib.suppress(InvalidRequest):
        assert isinstance(decode_ask(memoryview(content), "r1", STANDARD), Generation)


@pytest.mark.parametrize("content", [b"\x91" * 100_000, b"\x81\xa8messages" + b"\x91" * 100_000])
def test_what_is_nested_too_deeply_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidRequest):
        decode_ask(memoryview(content), "r1", STANDARD)
