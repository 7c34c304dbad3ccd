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
from tailrace.service.api import (
    ANY_CALLS,
    ChatPrompt,
    Generation,
    OutputFormat,
    OutputKind,
    Tool,
    ToolChoice,
    ToolMode,
)
from tests.support.scripted_service import MODEL

USER = {"role": "user", "content": "Hi"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
LOOK = {"type": "function", "name": "look", "description": "Look.", "parameters": SCHEMA, "strict": True}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"city": "Rome"}'}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "sunny"}
HISTORY_CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"city": "Rome"}'}}


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


def prompt(**fields: object) -> ChatPrompt:
    found = generation(**fields).prompt
    assert isinstance(found, ChatPrompt)
    return found


def test_functions_and_the_choice_among_them_arrive() -> None:
    asked = prompt(tools=[LOOK, {"type": "function", "name": "wait"}], tool_choice="required")
    assert asked.tools == (Tool("look", "Look.", SCHEMA, strict=True), Tool("wait"))
    assert asked.tool_choice == ToolChoice(ToolMode.REQUIRED)
    named = prompt(tools=[LOOK], tool_choice={"type": "function", "name": "look"}, parallel_tool_calls=False)
    assert named.tool_choice == ToolChoice(ToolMode.REQUIRED, "look", is_parallel=False)
    assert prompt(tools=[LOOK], tool_choice="none").tool_choice == ToolChoice(ToolMode.NONE)
    assert prompt(tools=[LOOK]).tool_choice == ANY_CALLS


@pytest.mark.parametrize(
    ("fields", "thinking", "effort"),
    [
        ({}, None, None),
        ({"reasoning": {"effort": "none"}}, False, None),
        ({"reasoning": {"effort": "high", "summary": "auto"}}, None, "high"),
        ({"chat_template_kwargs": {"thinking": True}}, True, None),
    ],
)
def test_how_much_to_think_arrives(fields: dict[str, object], thinking: bool | None, effort: str | None) -> None:
    asked = prompt(**fields)
    assert (asked.thinking, asked.effort) == (thinking, effort)


def test_the_form_of_the_text_arrives() -> None:
    schema = {"type": "json_schema", "name": "city", "schema": SCHEMA, "strict": True}
    wanted = generation(text={"format": schema}).output_format
    assert wanted is not None
    assert (wanted.kind, json.loads(wanted.text), wanted.param) == (
        OutputKind.JSON_SCHEMA,
        SCHEMA,
        "text.format.schema",
    )
    json_object = generation(text={"format": {"type": "json_object"}}).output_format
    assert json_object == OutputFormat(OutputKind.JSON_OBJECT, param="text.format")


def test_what_an_answer_said_comes_back_as_one_message() -> None:
    said = {"type": "message", "role": "assistant", "content": [part("I look.", "output_text")]}
    more = {"type": "message", "role": "assistant", "content": [part("And wait.", "output_text")]}
    assert messages(input=[USER, THOUGHT, said, CALL | {"id": "fc_1", "status": "completed"}, more, RESULT, USER]) == [
        USER,
        {
            "role": "assistant",
            "content": "I look.\nAnd wait.",
            "reasoning_content": "Hm.",
            "tool_calls": [HISTORY_CALL],
        },
        {"role": "tool", "content": "sunny", "tool_call_id": "c1"},
        USER,
    ]


def test_a_call_needs_no_words_and_a_result_may_have_parts() -> None:
    second = CALL | {"call_id": "c2", "caller": None}
    results = [RESULT | {"output": [part("a"), part("b")]}, RESULT | {"call_id": "c2"}]
    assert messages(input=[CALL, second, *results]) == [
        {"role": "assistant", "content": "", "tool_calls": [HISTORY_CALL, HISTORY_CALL | {"id": "c2"}]},
        {"role": "tool", "content": "a\nb", "tool_call_id": "c1"},
        {"role": "tool", "content": "sunny", "tool_call_id": "c2"},
    ]


def test_reasoning_that_nobody_here_can_read_is_left_out() -> None:
    sealed = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}], "encrypted_content": "x"}
    assert messages(input=[USER, sealed, {"role": "assistant", "content": "Ho"}]) == [
        USER,
        {"role": "assistant", "content": "Ho"},
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
        {"reasoning": {}},
        {"reasoning": {"effort": None, "summary": "auto", "generate_summary": None, "mode": "standard"}},
        {"tool_choice": "none"},
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
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [LOOK, {"name": "f"}]}, "tools[1].type"),
        ({"tools": [LOOK | {"name": "a b"}]}, "tools[0].name"),
        ({"tools": [LOOK | {"async": True}]}, "tools[0].async"),
        ({"tools": [LOOK | {"parameters": {"type": "array"}}]}, "tools[0].parameters.type"),
        ({"tools": [LOOK, LOOK]}, "tools"),
        ({"tools": "all"}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [LOOK], "tool_choice": "sometimes"}, "tool_choice"),
        ({"tools": [LOOK], "tool_choice": {"type": "function", "name": "other"}}, "tool_choice"),
        ({"tools": [LOOK], "tool_choice": {"type": "mcp"}}, "tool_choice.type"),
        ({"tools": [LOOK], "tool_choice": {"type": "allowed_tools", "mode": "auto"}}, "tool_choice.type"),
        ({"tools": [LOOK], "tool_choice": "required", "ignore_eos": True}, "ignore_eos"),
        ({"reasoning": {"effort": "huge"}}, "reasoning.effort"),
        ({"reasoning": {"summary": "detailed"}}, "reasoning.summary"),
        ({"reasoning": {"effort": "high"}, "chat_template_kwargs": {"thinking": False}}, "reasoning.effort"),
        ({"reasoning_effort": "high"}, "reasoning_effort"),
        ({"text": {"format": {"type": "yaml"}}}, "text.format.type"),
        ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema"),
        ({"text": {"format": {"type": "json_object"}}, "min_tokens": 3}, "min_tokens"),
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
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}, "input[0].call_id"),
        ({"input": [{"type": "function_call", "call_id": "c", "name": "f"}]}, "input[0].arguments"),
        ({"input": [USER, CALL | {"namespace": "n"}]}, "input[1].namespace"),
        ({"input": [CALL | {"call_id": ""}]}, "input[0].call_id"),
        ({"input": [CALL, RESULT | {"output": [{"type": "input_image"}]}]}, "input[1].output[0]"),
        ({"input": [{"type": "reasoning", "content": [{"type": "x"}]}]}, "input[0].content[0]"),
        ({"input": [{"type": "item_reference", "id": "rs_1"}]}, "input[0].type"),
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
ITEM_NAMES = st.sampled_from(["type", "role", "content", "id", "call_id", "output", "arguments", "name"])
KINDS = st.sampled_from(["function_call", "function_call_output", "reasoning", "message"])
ITEMS = st.lists(st.dictionaries(ITEM_NAMES, VALUES | KINDS), max_size=3)


@settings(max_examples=300)
@given(st.dictionaries(NAMES, VALUES, max_size=3), ITEMS)
def test_any_body_is_decoded_or_refused(fields: dict[str, object], items: list[object]) -> None:
    with suppress(RequestError):
        job(**({"input": items} | fields))
