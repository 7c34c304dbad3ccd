"""Bodies to generations: what is obeyed, what passes without effect, and what is refused by name."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import InvalidRequest, ModelNotFound, RequestError
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.job import Job
from tailrace.frontends.http.openai import request
from tailrace.frontends.http.openai.fields import OPENAI_FIELDS
from tailrace.frontends.http.openai.schema import ChatBody, CompletionBody
from tailrace.frontends.standing import Claim
from tailrace.service.api import (
    ANY_CALLS,
    ChatPrompt,
    Generation,
    InfillPrompt,
    OutputFormat,
    OutputKind,
    Standing,
    TextPrompt,
    TokenPrompt,
    Tool,
    ToolChoice,
    ToolMode,
)
from tests.support.scripted_service import MODEL

CONFIG = HttpConfig(max_merged_choices=8)
HELLO = [{"role": "user", "content": "Hi"}]


def decode_chat(body: bytes) -> Job:
    return request.decode_chat(body, "r", MODEL, CONFIG)


def decode_completion(body: bytes) -> Job:
    return request.decode_completion(body, "r", MODEL, CONFIG)


def chat(**fields: object) -> Generation:
    (generation,) = decode_chat(json.dumps({"messages": HELLO, **fields}).encode()).generations
    return generation


def chat_prompt(**fields: object) -> ChatPrompt:
    prompt = chat(**fields).prompt
    assert isinstance(prompt, ChatPrompt)
    return prompt


def completion(**fields: object) -> Job:
    return decode_completion(json.dumps({"prompt": "Hi", **fields}).encode())


def refusal_of_chat(**fields: object) -> RequestError:
    with pytest.raises(RequestError) as caught:
        chat(**fields)
    return caught.value


def refusal_of_completion(**fields: object) -> RequestError:
    with pytest.raises(RequestError) as caught:
        completion(**fields)
    return caught.value


def test_a_bare_chat_request_gets_the_defaults_of_the_api() -> None:
    generation = chat()
    assert generation.n == 1
    assert generation.stop == ()
    assert generation.seed is None
    assert generation.skip_special_tokens
    assert not generation.include_stop
    assert generation.cache_salt == ""
    sampling = generation.sampling
    assert sampling.max_tokens == 0  # as many as the context leaves
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (1.0, 1.0, 0, 0.0)
    assert sampling.num_logprobs is None


def test_every_sampling_field_arrives() -> None:
    generation = chat(
        temperature=0,
        top_p=0.9,
        top_k=40,
        min_p=0.05,
        seed=-1,
        presence_penalty=-2,
        frequency_penalty=2,
        repetition_penalty=1.1,
        logit_bias={"5": -100, "6": 2.5},
        max_tokens=9,
        min_tokens=3,
        ignore_eos=True,
        stop_token_ids=[1, 2],
        logprobs=True,
        top_logprobs=20,
        stop=["a", "b"],
        n=4,
        skip_special_tokens=False,
        include_stop_str_in_output=True,
    )
    sampling = generation.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0, 0.9, 40, 0.05)
    assert (sampling.presence_penalty, sampling.frequency_penalty, sampling.repetition_penalty) == (-2, 2, 1.1)
    assert dict(sampling.logit_bias) == {5: -100, 6: 2.5}
    assert (sampling.max_tokens, sampling.min_tokens, sampling.ignore_eos) == (9, 3, True)
    assert sampling.stop_token_ids == (1, 2)
    assert sampling.num_logprobs == 20
    assert generation.stop == ("a", "b")
    assert (generation.seed, generation.n) == (-1, 4)
    assert not generation.skip_special_tokens
    assert generation.include_stop


def test_what_a_body_says_of_its_class_is_kept_apart_from_what_is_to_be_computed() -> None:
    job = completion(service_tier="flex", priority=-3, user_id="u7")
    assert job.claim == Claim(service_tier="flex", priority=-3, tenant="u7")
    assert completion().claim == Claim()
    assert [each.standing for each in job.generations] == [Standing()]


def test_null_is_the_same_as_absent() -> None:
    obeyed = [name for name in ChatBody.__struct_fields__ if name != "messages"]
    assert chat(**dict.fromkeys([*obeyed, *OPENAI_FIELDS.accepted, "tools", "never_heard_of"])) == chat()


@pytest.mark.parametrize("field", OPENAI_FIELDS.accepted)
def test_fields_without_effect_pass_with_any_value(field: str) -> None:
    assert chat(**{field: {"a": [1]}}) == chat()


@pytest.mark.parametrize(("field", "refusal"), OPENAI_FIELDS.refused.items())
def test_unsupported_fields_are_refused_by_name_and_pass_when_they_ask_for_nothing(field: str, refusal: Any) -> None:
    refused, passed = (
        (refusal_of_completion, completion) if field in ChatBody.__struct_fields__ else (refusal_of_chat, chat)
    )
    error = refused(**{field: {"something": "else"}})
    assert error.param == field
    assert type(error.param) is str  # nothing that only looks like it: it must go out as JSON
    assert error.code == "unsupported_parameter"
    for neutral in refusal.neutral:
        passed(**{field: neutral})


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": []},
        {"tools": [], "tool_choice": "auto"},
        {"tool_choice": "none"},
        {"response_format": {"type": "text"}},
        {"parallel_tool_calls": False},
        {"documents": []},
        {"allowed_token_ids": []},
        {"suffix": ""},
        {"logprobs": False},
        {"logprobs": False, "top_logprobs": 0},
        {"top_logprobs": 0},
    ],
    ids=json.dumps,
)
def test_values_that_ask_for_nothing_change_nothing(fields: dict[str, object]) -> None:
    assert chat(**fields) == chat()
    assert completion(**fields) == completion()


WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Says how it is",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "strict": True,
    },
}
CLOCK = {"type": "function", "function": {"name": "clock"}}


def test_tools_and_their_choice_are_of_the_prompt() -> None:
    prompt = chat_prompt(tools=[WEATHER, CLOCK])
    schema = WEATHER["function"]["parameters"]
    assert prompt.tools == (Tool("get_weather", "Says how it is", schema, strict=True), Tool("clock"))
    assert prompt.tool_choice == ANY_CALLS


@pytest.mark.parametrize(
    ("fields", "choice"),
    [
        ({"tool_choice": "auto"}, ANY_CALLS),
        ({"tool_choice": "none"}, ToolChoice(ToolMode.NONE)),
        ({"tool_choice": "required"}, ToolChoice(ToolMode.REQUIRED)),
        ({"parallel_tool_calls": False}, ToolChoice(is_parallel=False)),
        (
            {"tool_choice": {"type": "function", "function": {"name": "clock"}}, "parallel_tool_calls": False},
            ToolChoice(ToolMode.REQUIRED, "clock", is_parallel=False),
        ),
    ],
)
def test_each_choice_among_tools_arrives(fields: dict[str, Any], choice: ToolChoice) -> None:
    assert chat_prompt(tools=[WEATHER, CLOCK], **fields).tool_choice == choice


def with_function(**fields: object) -> dict[str, object]:
    return {"tools": [CLOCK, {"type": "function", "function": {"name": "f"} | fields}]}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [CLOCK] * 2}, "tools"),
        ({"tools": [CLOCK] * 129}, "tools"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": "all"}, "tools"),
        (with_function(name="a b"), "tools[1].function.name"),
        (with_function(name="x" * 65), "tools[1].function.name"),
        (with_function(description=5), "tools[1].function.description"),
        (with_function(parameters=[]), "tools[1].function.parameters"),
        (with_function(parameters={"type": "array"}), "tools[1].function.parameters.type"),
        (with_function(mood="good"), "tools[1].function.mood"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": "some"}, "tool_choice"),
        ({"tools": [CLOCK], "tool_choice": {"type": "allowed_tools", "allowed_tools": {}}}, "tool_choice.type"),
        (
            {"tools": [CLOCK], "tool_choice": {"type": "function", "function": {"name": "g"}}},
            "tool_choice.function.name",
        ),
        ({"tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice.function.name"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"function_call": {"name": "f"}}, "function_call"),
    ],
)
def test_tools_that_are_none_are_refused_with_their_place(fields: dict[str, object], param: str) -> None:
    error = refusal_of_chat(**fields)
    assert error.param == param
    assert param.partition(".")[0].partition("[")[0] in str(error)


@pytest.mark.parametrize(
    ("fields", "wish"),
    [
        ({}, (None, None)),
        ({"thinking": {"type": "enabled"}}, (True, None)),
        ({"thinking": {"type": "disabled"}}, (False, None)),
        ({"thinking": True}, (True, None)),
        ({"thinking": False}, (False, None)),
        ({"reasoning_effort": "high"}, (None, "high")),
        ({"reasoning_effort": "none"}, (False, None)),
        ({"thinking": {"type": "enabled"}, "reasoning_effort": "low"}, (True, "low")),
        ({"chat_template_kwargs": {"thinking": True}}, (True, None)),
        ({"chat_template_kwargs": {"enable_thinking": False}}, (False, None)),
        ({"chat_template_kwargs": {"reasoning_effort": "max"}}, (None, "max")),
    ],
    ids=json.dumps,
)
def test_thinking_is_asked_for_in_each_of_its_places(
    fields: dict[str, object], wish: tuple[bool | None, str | None]
) -> None:
    prompt = chat_prompt(**fields)
    assert (prompt.thinking, prompt.effort) == wish
    assert prompt.template_args == fields.get("chat_template_kwargs", {})


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"thinking": {"type": "adaptive"}}, "thinking.type"),
        ({"thinking": {"type": "enabled", "budget_tokens": 5}}, "thinking.budget_tokens"),
        ({"thinking": "yes"}, "thinking"),
        ({"reasoning_effort": "some"}, "reasoning_effort"),
        ({"thinking": True, "reasoning_effort": "none"}, "reasoning_effort"),
        ({"thinking": True, "chat_template_kwargs": {"thinking": False}}, "chat_template_kwargs.thinking"),
    ],
)
def test_thinking_that_makes_no_sense_is_refused_by_name(fields: dict[str, object], param: str) -> None:
    assert refusal_of_chat(**fields).param == param


@pytest.mark.parametrize("ask", [chat, lambda **fields: completion(**fields).generations[0]], ids=["chat", "text"])
def test_what_an_answer_must_look_like_is_said_in_two_fields(ask: Callable[..., Generation]) -> None:
    assert ask(response_format={"type": "text"}).output_format is None
    assert ask(response_format={"type": "json_object"}).output_format == OutputFormat(OutputKind.JSON_OBJECT)
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True}}
    assert ask(response_format=schema).output_format == OutputFormat(
        OutputKind.JSON_SCHEMA, '{"type":"object"}', param="response_format.json_schema.schema"
    )
    assert ask(structured_outputs={"choice": ["a", "b"]}).output_format == OutputFormat(
        OutputKind.CHOICE, choices=("a", "b"), param="structured_outputs.choice"
    )


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {}}, "response_format.type"),
        ({"response_format": "json"}, "response_format"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": []}}},
            "response_format.json_schema.schema",
        ),
        ({"structured_outputs": {"regex": ""}}, "structured_outputs.regex"),
        ({"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
        ({"structured_outputs": {"choice": ["a", 5]}}, "structured_outputs.choice[1]"),
        ({"structured_outputs": {"structural_tag": "x"}}, "structured_outputs.structural_tag"),
        ({"structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}}, "structured_outputs"),
        ({"response_format": {"type": "json_object"}, "min_tokens": 1}, "min_tokens"),
        ({"response_format": {"type": "json_object"}, "ignore_eos": True}, "ignore_eos"),
    ],
)
def test_a_format_that_is_none_or_cannot_be_is_refused_by_name(fields: dict[str, object], param: str) -> None:
    assert refusal_of_chat(**fields).param == param
    assert refusal_of_completion(**fields).param == param


def test_a_call_that_must_be_or_a_format_leaves_no_room_for_more() -> None:
    assert refusal_of_chat(tools=[CLOCK], tool_choice="required", min_tokens=1).param == "min_tokens"
    assert refusal_of_chat(tools=[CLOCK], tool_choice="required", ignore_eos=True).param == "ignore_eos"
    assert refusal_of_completion(structured_outputs={"regex": "a"}, echo=True).param == "echo"
    assert chat(tools=[CLOCK], min_tokens=1, ignore_eos=True).sampling.min_tokens == 1


@pytest.mark.parametrize(
    ("field", "hint"),
    [
        ("guided_json", "structured_outputs.json"),
        ("guided_regex", "structured_outputs.regex"),
        ("guided_choice", "structured_outputs.choice"),
        ("guided_grammar", "structured_outputs.grammar"),
        ("regex", "structured_outputs.regex"),
        ("ebnf", "structured_outputs.grammar"),
    ],
)
def test_who_says_it_in_old_words_is_told_the_new_ones(field: str, hint: str) -> None:
    assert hint in str(refusal_of_chat(**{field: "a"}))
    assert hint in str(refusal_of_completion(**{field: "a"}))


def test_a_yes_to_log_probabilities_of_a_completion_gives_no_number() -> None:
    error = refusal_of_completion(logprobs=True)
    assert error.param == "logprobs"
    assert "number" in str(error)


@pytest.mark.parametrize("key", ["abc", "", "-1", "1.5", "05", " 5", "٥", "9" * 5000])
def test_a_bias_on_what_is_no_token_id_is_refused_with_its_key(key: str) -> None:
    error = refusal_of_chat(logit_bias={"5": 1, key: 1})
    assert error.param == "logit_bias"
    assert repr(key[:32]) in str(error)
    assert len(str(error)) < 200


def test_each_field_has_one_fate() -> None:
    assert not OPENAI_FIELDS.accepted.keys() & OPENAI_FIELDS.refused.keys()
    for body in (ChatBody, CompletionBody):
        assert not OPENAI_FIELDS.accepted.keys() & set(body.__struct_fields__)
    assert not OPENAI_FIELDS.refused.keys() & set(ChatBody.__struct_fields__) & set(CompletionBody.__struct_fields__)


def test_unknown_fields_are_refused_by_name() -> None:
    error = refusal_of_chat(frobnicate=1)
    assert error.param == "frobnicate"
    assert error.code == "unknown_parameter"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 1.5}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"n": 0}, "n"),
        ({"n": True}, "n"),
        ({"seed": 2**63}, "seed"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 10**30}, "max_tokens"),
        ({"max_tokens": 1, "max_completion_tokens": 2}, "max_tokens"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"logit_bias": {"1": 101}}, "logit_bias[...]"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
        ({"stop": ""}, "stop"),
        ({"stop": [""]}, "stop[0]"),
        ({"logprobs": 1}, "logprobs"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"wrong": 1}}, "stream_options.wrong"),
        ({"stream": True, "stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
        ({"cache_salt": ""}, "cache_salt"),
        ({"chat_template_kwargs": {"a": {"b": {"c": 1}}}}, "chat_template_kwargs[...][...]"),
        ({"add_generation_prompt": True, "continue_final_message": True}, "add_generation_prompt"),
    ],
)
def test_values_out_of_range_are_refused_with_their_field(fields: dict[str, object], param: str) -> None:
    assert refusal_of_chat(**fields).param == param


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([], "messages"),
        (None, "messages"),
        ("Hi", "messages"),
        ([{"content": "Hi"}], "messages[0].role"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"role": "user", "content": None}], "messages[0].content"),
        ([{"role": "user", "content": 5}], "messages[0].content"),
        ([*HELLO, {"role": "tool", "content": "4"}], "messages[1].tool_call_id"),
        ([*HELLO, {"role": "critic", "content": "4"}], "messages[1].role"),
        ([{"role": "user", "content": "Hi", "mood": "good"}], "messages[0].mood"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}], "messages[0].content[0]"),
        ([{"role": "user", "content": [{"image_url": {}, "type": "image_url"}]}], "messages[0].content[0]"),
        ([{"role": "user", "content": [{"type": 5}]}], "messages[0].content[0]"),
        ([{"role": "user", "content": [{"text": "a"}]}], "messages[0].content[0]"),
        ([{"role": "user", "content": ["a"]}], "messages[0].content[0]"),
        ([{"role": "user", "content": [{"type": "text", "text": 5}]}], "messages[0].content[0].text"),
        ([{"role": "user", "content": [{"type": "text", "text": "a", "mood": 1}]}], "messages[0].content[0].mood"),
        ([{"role": "user", "content": [{"type": "audio", "text": "a"}]}], "messages[0].content[0]"),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text"),
        ([{"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}], "messages[0].tool_calls[0].function"),
        ([{"role": "assistant", "tool_calls": [{"id": "1", "type": "custom"}]}], "messages[0].tool_calls[0].type"),
        ([{"role": "user", "content": "Hi", "prefix": True}], "messages[0].prefix"),
        ([{"role": "assistant", "content": "a", "prefix": True}, *HELLO], "messages[0].prefix"),
    ],
)
def test_messages_that_cannot_be_taken_are_refused_with_their_place(messages: object, param: str) -> None:
    assert refusal_of_chat(messages=messages).param == param


def test_a_part_that_is_no_text_is_refused_as_such() -> None:
    part = {"type": "image_url", "image_url": {"url": "data:"}}
    error = refusal_of_chat(messages=[{"role": "user", "content": [part]}])
    assert "'image_url'; only text is supported" in str(error)


def test_marks_of_a_cache_are_ignored_and_turns_that_said_nothing_are_empty() -> None:
    marked = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}, "annotations": None}
    prompt = chat_prompt(
        messages=[{"role": "user", "content": [marked]}, {"role": "assistant", "content": None}, *HELLO]
    )
    assert prompt.messages == [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "Hi"},
    ]


def test_messages_arrive_as_roles_and_text() -> None:
    prompt = chat_prompt(
        messages=[
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": "Ann"},
            {
                "role": "assistant",
                "content": "c",
                "reasoning": "d",
                "tool_calls": [],
                "refusal": None,
                "annotations": [],
            },
        ],
        chat_template_kwargs={"enable_thinking": False},
    )
    assert prompt.messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "a\nb", "name": "Ann"},
        {"role": "assistant", "content": "c", "reasoning_content": "d"},
    ]
    assert prompt.template_args == {"enable_thinking": False}
    assert prompt.add_generation_prompt
    assert not prompt.continue_final_message


@pytest.mark.parametrize("mark", [{"prefix": True}, {}])
def test_the_last_message_can_be_continued_in_either_spelling(mark: dict[str, bool]) -> None:
    messages = [*HELLO, {"role": "assistant", "content": "So", **mark}]
    prompt = chat_prompt(messages=messages, continue_final_message=None if mark else True)
    assert prompt.continue_final_message
    assert not prompt.add_generation_prompt


@pytest.mark.parametrize("name", [None, "default", "tiny", "tiny-latest"])
def test_the_model_answers_to_its_names_and_to_none(name: str | None) -> None:
    assert chat(model=name) == chat()


def test_another_model_is_not_found() -> None:
    error = refusal_of_chat(model="gpt-x")
    assert isinstance(error, ModelNotFound)
    assert error.param == "model"
    assert "gpt-x" in str(error)
    assert "tiny" in str(error)


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Hi", [TextPrompt("Hi")]),
        (["a", "b"], [TextPrompt("a"), TextPrompt("b")]),
        ([1, 2, 3], [TokenPrompt([1, 2, 3])]),
        ([[1, 2], [3]], [TokenPrompt([1, 2]), TokenPrompt([3])]),
    ],
)
def test_prompts_come_in_four_shapes(prompt: object, expected: list[object]) -> None:
    job = completion(prompt=prompt, n=2)
    assert [generation.prompt for generation in job.generations] == expected
    assert job.num_choices == 2 * len(expected)
    assert len({generation.request_id for generation in job.generations}) == len(expected)


@pytest.mark.parametrize(
    "prompt", [None, [], ["a", 1], [1, [2]], [[1], "a"], [-1], [2**31], [1.5], {"text": "a"}, [[1, True]]]
)
def test_prompts_of_no_shape_are_refused(prompt: object) -> None:
    error = refusal_of_completion(prompt=prompt)
    assert error.param is not None
    assert error.param.startswith("prompt")


def test_choices_of_all_prompts_together_are_bounded() -> None:
    assert completion(prompt=["a"] * 4, n=2).num_choices == 8
    assert refusal_of_completion(prompt=["a"] * 3, n=3).param == "prompt"


def test_how_many_choices_one_prompt_may_have_is_left_to_the_service() -> None:
    assert chat(n=9).n == 9
    assert completion(n=9).num_choices == 9


def test_completions_have_their_own_fields() -> None:
    (generation,) = completion(echo=True, best_of=1, add_special_tokens=False, user="u").generations
    assert generation.echo
    assert generation.prompt == TextPrompt("Hi", add_special_tokens=False)
    assert generation.sampling.max_tokens == CONFIG.default_completion_tokens
    assert completion(logprobs=5).generations[0].sampling.num_logprobs == 5
    assert refusal_of_completion(best_of=3).param == "best_of"
    assert refusal_of_completion(messages=HELLO).param == "messages"


def test_a_suffix_makes_of_each_text_a_gap_to_fill() -> None:
    first, second = completion(prompt=["a", "b"], suffix="c", add_special_tokens=False).generations
    assert first.prompt == InfillPrompt("a", "c", add_special_tokens=False)
    assert second.prompt == InfillPrompt("b", "c", add_special_tokens=False)


@pytest.mark.parametrize("suffix", ["", None])
def test_no_suffix_leaves_a_text_to_continue(suffix: str | None) -> None:
    assert completion(suffix=suffix) == completion()


def test_a_suffix_of_token_ids_or_in_a_chat_is_refused() -> None:
    assert refusal_of_completion(prompt=[1, 2], suffix="c").param == "suffix"
    assert refusal_of_chat(suffix="c").param == "suffix"
    assert refusal_of_completion(suffix=["c"]).param == "suffix"


def test_top_p_zero_asks_for_the_best_token_alone() -> None:
    assert 0 < chat(top_p=0).sampling.top_p < 1e-6


def test_end_users_share_no_cached_block() -> None:
    salts = [
        chat(**fields).cache_salt
        for fields in ({}, {"cache_salt": "a"}, {"user_id": "a"}, {"user_id": "b"}, {"cache_salt": "a", "user_id": "a"})
    ]
    assert len(set(salts)) == len(salts)
    assert salts[0] == ""


def test_usage_in_chunks_is_asked_for_in_two_ways() -> None:
    def wishes(**options: bool) -> tuple[bool, bool]:
        job = completion(stream=True, stream_options=options)
        assert job.is_streamed
        return job.include_usage, job.continuous_usage

    assert wishes() == (False, False)
    assert wishes(include_usage=True) == (True, False)
    assert wishes(include_usage=True, continuous_usage_stats=True) == (True, True)
    assert wishes(continuous_usage_stats=True) == (False, False)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"messages"',
        b"\xff",
        b"\xef\xbb\xbf{}",
        b'{"messages":[{"role":"user","content":"\xff"}]}',
        b'{"messages":[{"role":"user","content":"\\ud800"}]}',
        b'{"messages":[{"role":"user","content":"a"}],"temperature":NaN}',
        b'{"messages":[{"role":"user","content":"a"}],"temperature":1e999}',
        b'{"messages":[{"role":"user","content":"a"}],"n":1,"n":1}',
        b'{"messages":[{"role":"user","content":"a"}],"tools":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"messages":' + b"[" * 1_000_000,
        b'{"messages":[{"role":"user","content":"a"}],"seed":' + b"9" * 5000 + b"}",
        b'{"messages":[{"role":"user","content":"a"}],"chat_template_kwargs":{"a":' + b"9" * 5000 + b"}}",
        b'{"messages":[{"role":"user","content":"a"}],"' + b"x" * 50_000 + b'":1}',
    ],
    ids=lambda body: repr(body[:24]),
)
def test_a_body_that_is_no_request_is_refused_briefly(body: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode_chat(body)
    assert len(str(caught.value)) < 500
    assert len(caught.value.param or "") < 100


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    sorted({*ChatBody.__struct_fields__, *CompletionBody.__struct_fields__, *OPENAI_FIELDS.refused, "other"})
)


@settings(max_examples=300)
@given(st.dictionaries(NAMES, JSON, max_size=4), st.booleans())
def test_any_fields_are_decoded_or_refused_and_never_crash(fields: dict[str, object], has_messages: bool) -> None:
    body = json.dumps({"messages": HELLO, **fields} if has_messages else {"prompt": "Hi", **fields}).encode()
    with suppress(RequestError):
        job = decode_chat(body) if has_messages else decode_completion(body)
        assert job.num_choices >= 1
        assert len(job.generations) == 1 or job.num_choices <= CONFIG.max_merged_choices


@settings(max_examples=200)
@given(st.binary(max_size=64))
def test_any_bytes_are_decoded_or_refused_and_never_crash(body: bytes) -> None:
    for decode in (decode_chat, decode_completion):
        with suppress(RequestError):
            assert decode(body).num_choices >= 1
