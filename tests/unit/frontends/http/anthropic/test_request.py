"""Bodies of messages to generations: what is obeyed, what passes without effect, and what is refused by name."""

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import ModelNotFound, RequestError
from tailrace.frontends.http.anthropic.fields import ANTHROPIC_FIELDS
from tailrace.frontends.http.anthropic.request import decode_message
from tailrace.frontends.http.anthropic.schema import MessagesBody
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.job import Job
from tailrace.service.api import ANY_CALLS, ChatPrompt, Generation, OutputKind, Tool, ToolChoice, ToolMode
from tests.support.scripted_service import MODEL

USER = {"role": "user", "content": "Hi"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
LOOK = {"name": "look", "description": "Look.", "input_schema": SCHEMA}
USE = {"type": "tool_use", "id": "c1", "name": "look", "input": {"city": "Rôme", "n": [1, 2.0]}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "sunny"}
ASKED = {"role": "assistant", "content": [USE]}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"city": "Rôme", "n": [1, 2.0]}'}}
BARE: dict[str, object] = {"max_tokens": 9, "messages": [USER]}


def job(**fields: object) -> Job:
    return decode_message(json.dumps(BARE | fields).encode(), "r", MODEL, HttpConfig())


def generation(**fields: object) -> Generation:
    (only,) = job(**fields).generations
    return only


def prompt(**fields: object) -> ChatPrompt:
    found = generation(**fields).prompt
    assert isinstance(found, ChatPrompt)
    return found


def refusal(**fields: object) -> RequestError:
    with pytest.raises(RequestError) as caught:
        job(**fields)
    return caught.value


def block(text: str, **fields: object) -> dict[str, object]:
    return {"type": "text", "text": text, **fields}


def test_a_bare_message_gets_the_defaults_of_the_api() -> None:
    bare = generation()
    assert bare.prompt == ChatPrompt([USER])
    assert bare.sampling.max_tokens == 9
    assert (bare.sampling.temperature, bare.sampling.top_p, bare.sampling.top_k) == (1.0, 1.0, 0)
    assert (bare.n, bare.stop, bare.seed, bare.cache_salt) == (1, (), None, "")
    assert bare.ends_with_context  # clients must send a number, and send the largest
    assert not job().is_streamed


def test_sampling_fields_arrive() -> None:
    given = generation(temperature=0.5, top_p=0.9, top_k=40, seed=7, min_p=0.1, stop_sequences=["a", "b"])
    sampling = given.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0.5, 0.9, 40, 0.1)
    assert given.stop == ("a", "b")
    assert given.seed == 7
    assert job(stream=True).is_streamed


@pytest.mark.parametrize("content", ["Be brief.", [block("Be brief.", cache_control={"type": "ephemeral"})]])
def test_a_system_text_comes_first(content: object) -> None:
    assert prompt(system=content).messages == [{"role": "system", "content": "Be brief."}, USER]


def test_an_empty_system_text_is_none() -> None:
    assert prompt(system="").messages == prompt(system=[]).messages == prompt(system=None).messages == [USER]


def test_blocks_of_text_are_lines() -> None:
    content = [block("a", cache_control={"type": "ephemeral", "ttl": "1h"}, citations=None), block("b")]
    assert prompt(messages=[{"role": "user", "content": content}]).messages == [{"role": "user", "content": "a\nb"}]


def test_turns_of_one_role_in_a_row_are_one() -> None:
    turns = [USER, {"role": "user", "content": [block("there")]}, {"role": "assistant", "content": "Ho"}, USER]
    assert prompt(messages=turns).messages == [
        {"role": "user", "content": "Hi\nthere"},
        {"role": "assistant", "content": "Ho"},
        USER,
    ]


def test_a_last_turn_of_the_assistant_is_continued() -> None:
    begun = prompt(messages=[USER, {"role": "assistant", "content": "The answer is"}])
    assert begun.continue_final_message
    assert not begun.add_generation_prompt
    assert prompt().add_generation_prompt
    assert not prompt().continue_final_message


def test_tools_and_the_choice_among_them_arrive() -> None:
    typed = {"type": "custom", "name": "wait", "input_schema": {}, "strict": True, "cache_control": {"type": "x"}}
    asked = prompt(tools=[LOOK, typed], tool_choice={"type": "any"})
    assert asked.tools == (Tool("look", "Look.", SCHEMA), Tool("wait", strict=True))
    assert asked.tool_choice == ToolChoice(ToolMode.REQUIRED)
    named = prompt(tools=[LOOK], tool_choice={"type": "tool", "name": "look", "disable_parallel_tool_use": True})
    assert named.tool_choice == ToolChoice(ToolMode.REQUIRED, "look", is_parallel=False)
    assert prompt(tools=[LOOK], tool_choice={"type": "none"}).tool_choice == ToolChoice(ToolMode.NONE)
    assert prompt(tools=[LOOK]).tool_choice == ANY_CALLS


@pytest.mark.parametrize(
    ("fields", "thinking", "effort"),
    [
        ({}, None, None),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2000}, True, None),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}, True, "max"),
        ({"thinking": {"type": "disabled"}}, False, None),
        ({"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}}, False, None),
        ({"output_config": {"effort": "high"}}, None, "high"),
        ({"chat_template_kwargs": {"enable_thinking": False}}, False, None),
    ],
)
def test_whether_and_how_much_to_think_arrives(
    fields: dict[str, object], thinking: bool | None, effort: str | None
) -> None:
    asked = prompt(**fields)
    assert (asked.thinking, asked.effort) == (thinking, effort)


def test_the_form_of_the_answer_arrives() -> None:
    wanted = generation(output_config={"format": {"type": "json_schema", "schema": SCHEMA}}).output_format
    assert wanted is not None
    assert (wanted.kind, wanted.param) == (OutputKind.JSON_SCHEMA, "output_config.format.schema")
    assert json.loads(wanted.text) == SCHEMA


def test_uses_of_tools_and_their_results_are_messages_of_their_own() -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    sealed = {"type": "redacted_thinking", "data": "x"}
    turns = [
        USER,
        {"role": "assistant", "content": [sealed, thinking, block("I look."), USE, USE | {"id": "c2"}]},
        {"role": "user", "content": [RESULT, RESULT | {"tool_use_id": "c2", "is_error": True}, block("a"), block("b")]},
        USER,
    ]
    assert prompt(messages=turns).messages == [
        USER,
        {
            "role": "assistant",
            "content": "I look.",
            "reasoning_content": "Hm.",
            "tool_calls": [CALL, CALL | {"id": "c2"}],
        },
        {"role": "tool", "content": "sunny", "tool_call_id": "c1"},
        {"role": "tool", "content": "Error: sunny", "tool_call_id": "c2"},
        {"role": "user", "content": "a\nb\nHi"},
    ]


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"content": [block("a"), block("b")]}, "a\nb"),
        ({"content": []}, ""),
        ({"content": None}, ""),
        ({"content": None, "is_error": True}, "Error"),
        ({"is_error": False}, "sunny"),
    ],
)
def test_a_result_is_text_of_any_shape(result: dict[str, object], text: str) -> None:
    turns = [ASKED, {"role": "user", "content": [RESULT | result]}]
    assert prompt(messages=turns).messages[-1] == {"role": "tool", "content": text, "tool_call_id": "c1"}


def test_an_answer_in_several_turns_is_one_message() -> None:
    turns = [ASKED, {"role": "assistant", "content": "There."}, {"role": "user", "content": [RESULT]}]
    assert prompt(messages=turns).messages[0] == {"role": "assistant", "content": "There.", "tool_calls": [CALL]}


def test_an_input_that_was_no_object_goes_back_in_as_it_was_written() -> None:
    asked = {"role": "assistant", "content": [USE | {"input": {"_raw": '{"city": "Ro'}}]}
    (message, _) = prompt(messages=[asked, {"role": "user", "content": [RESULT]}]).messages
    assert message["tool_calls"][0]["function"]["arguments"] == '{"city": "Ro'


def test_an_input_nested_without_end_is_refused() -> None:
    nested = '{"a":' * 900 + "1" + "}" * 900
    use = json.dumps(ASKED).replace('"input": {', '"input": {"deep": ' + nested + ", ")
    body = '{"max_tokens": 9, "messages": [' + use + ', {"role": "user", "content": "x"}]}'
    with suppress(RequestError):
        decode_message(body.encode(), "r", MODEL, HttpConfig())


def test_the_end_user_is_a_tenant_with_a_cache_of_its_own() -> None:
    by_metadata, by_field = job(metadata={"user_id": "u"}), job(user_id="u", cache_salt="s")
    assert by_metadata.claim.tenant == by_field.claim.tenant == "u"
    assert by_metadata.generations[0].cache_salt == "|user_id=u"
    assert by_field.generations[0].cache_salt == "s|user_id=u"
    assert job(metadata={"user_id": None}).claim.tenant == ""
    assert refusal(metadata={"user_id": "u"}, user_id="v").param == "user_id"


@pytest.mark.parametrize(
    ("fields", "tier"),
    [
        ({}, None),
        ({"service_tier": "auto"}, "auto"),
        ({"service_tier": "standard_only"}, "default"),
        ({"service_tier": "gold"}, "gold"),
        ({"speed": "standard"}, None),
        ({"speed": "fast"}, "fast"),
    ],
)
def test_tier_and_speed_are_the_words_of_a_class(fields: dict[str, object], tier: str | None) -> None:
    assert job(**fields).claim.service_tier == tier


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": []},
        {"tool_choice": {"type": "auto"}},
        {"tool_choice": {"type": "none"}},
        {"output_config": {"effort": None, "format": None}},
        {"thinking": None},
        {"output_config": {}},
        {"context_management": {"edits": []}},
        {"cache_control": {"type": "ephemeral"}},
        {"mcp_servers": []},
        {"container": None},
    ],
)
def test_what_asks_for_nothing_passes(fields: dict[str, object]) -> None:
    assert generation(**fields) == generation()


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"name": "f"}]}, "tools[0].input_schema"),
        ({"tools": [LOOK | {"input_schema": {"type": "string"}}]}, "tools[0].input_schema.type"),
        ({"tools": [LOOK | {"name": "a b"}]}, "tools[0].name"),
        ({"tools": [LOOK | {"input_examples": [{}]}]}, "tools[0].input_examples"),
        ({"tools": [LOOK | {"allowed_callers": ["code_execution_20260120"]}]}, "tools[0].allowed_callers[0]"),
        ({"tools": [LOOK, LOOK]}, "tools"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tools": [LOOK], "tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"tools": [LOOK], "tool_choice": {"type": "tool", "name": "other"}}, "tool_choice"),
        ({"tools": [LOOK], "tool_choice": {"type": "any", "name": "look"}}, "tool_choice.name"),
        ({"tools": [LOOK], "tool_choice": {"type": "any"}, "min_tokens": 2}, "min_tokens"),
        ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
        ({"thinking": {"type": "enabled", "budget_tokens": 5}}, "thinking.budget_tokens"),
        ({"thinking": {"type": "enabled", "budget_tokens": 2048}, "max_tokens": 2048}, "thinking.budget_tokens"),
        ({"thinking": {"type": "between_tools"}}, "thinking.type"),
        ({"thinking": {"type": "adaptive", "display": "short"}}, "thinking.display"),
        (
            {"thinking": {"type": "disabled"}, "chat_template_kwargs": {"thinking": True}},
            "chat_template_kwargs.thinking",
        ),
        ({"output_config": {"effort": "minimal"}}, "output_config.effort"),
        ({"output_config": {"format": {"type": "json_object"}}}, "output_config.format.type"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
        ({"output_config": {"task_budget": {}}}, "output_config.task_budget"),
        ({"output_format": {"type": "json_schema", "schema": {}}}, "output_format"),
        ({"mcp_servers": [{"name": "m"}]}, "mcp_servers"),
        ({"container": "c"}, "container"),
        ({"frobnicate": 1}, "frobnicate"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": None}, "max_tokens"),
        ({"stop_sequences": [""]}, "stop_sequences[0]"),
        ({"stop_sequences": list("abcde")}, "stop_sequences"),
        ({"metadata": {"user": "u"}}, "metadata.user"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": "x", "name": "n"}]}, "messages[0].name"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [USE]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [RESULT]}]}, "messages[0].content[0].tool_use_id"),
        (
            {"messages": [{"role": "assistant", "content": [USE | {"input": "x"}]}, USER]},
            "messages[0].content[0].input",
        ),
        ({"messages": [{"role": "assistant", "content": [USE | {"id": ""}]}, USER]}, "messages[0].content[0].id"),
        ({"messages": [USER, {"role": "assistant", "content": [USE]}]}, "messages[1]"),
        (
            {"messages": [ASKED, {"role": "user", "content": [RESULT | {"content": [{"type": "image"}]}]}]},
            "messages[1].content[0].content[0]",
        ),
        ({"messages": [USER, {"role": "user", "content": [block("x", b=1)]}]}, "messages[1].content[0].b"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"system": [{"type": "image"}]}, "system[0]"),
        ({"speed": "slow"}, "speed"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(fields: dict[str, object], param: str) -> None:
    error = refusal(**fields)
    assert error.status == 400
    assert error.param == param
    assert param.rpartition(".")[2].strip("[.]") in str(error)


def test_another_model_is_refused() -> None:
    with pytest.raises(ModelNotFound, match="claude"):
        job(model="claude")
    assert generation(model="default") == generation(model="tiny") == generation()


def test_a_field_is_in_one_place() -> None:
    obeyed = set(MessagesBody.__struct_fields__)
    assert not obeyed & ANTHROPIC_FIELDS.accepted.keys()
    assert not obeyed & ANTHROPIC_FIELDS.refused.keys()
    assert not ANTHROPIC_FIELDS.accepted.keys() & ANTHROPIC_FIELDS.refused.keys()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(sorted({*MessagesBody.__struct_fields__, *ANTHROPIC_FIELDS.refused, "other"}))


@settings(max_examples=300)
@given(st.dictionaries(NAMES, VALUES, max_size=3))
def test_any_body_is_decoded_or_refused(fields: dict[str, object]) -> None:
    with suppress(RequestError):
        job(**fields)
