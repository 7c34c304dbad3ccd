"""What every front end does with tools, thinking and formats, whatever it speaks: all ask alike, all hear the same."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tailrace.errors import InvalidRequest
from tailrace.service.api import ChatPrompt, OutputKind, Service, Tool, ToolChoice, ToolMode
from tailrace.telemetry.prometheus import Metrics
from tailrace.types import FinishReason
from tests.contract.front_ends.adapter import Refused
from tests.contract.front_ends.chat_adapter import USER, ChatFrontEnd, ChatWish, answer_of
from tests.contract.front_ends.chats_elsewhere import over_grpc_chat, over_shm_chat
from tests.contract.front_ends.chats_over_http import SHAPES, over_http_shape
from tests.support.scripted_service import ScriptedService, Step, call, finish, thought, token

pytestmark = pytest.mark.asyncio(loop_scope="module")

Serving = Callable[[Service, Metrics, Path], AbstractAsyncContextManager[ChatFrontEnd]]


def _over_http(name: str, *, is_streamed: bool) -> Serving:
    def serve(service: Service, metrics: Metrics, directory: Path) -> AbstractAsyncContextManager[ChatFrontEnd]:
        return over_http_shape(name, service, metrics, is_streamed=is_streamed)

    return serve


FRONT_ENDS: dict[str, Serving] = {
    **{name: _over_http(name, is_streamed=True) for name in SHAPES},
    **{f"{name}, whole": _over_http(name, is_streamed=False) for name in SHAPES},
    "grpc": over_grpc_chat,
    "shm": over_shm_chat,
}

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
LOOK, WAIT = Tool("look", "Look out of the window.", SCHEMA, strict=True), Tool("wait")
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"city": "Rome"}'}}
HISTORY = (
    USER,
    {"role": "assistant", "content": "I look.", "reasoning_content": "Hm.", "tool_calls": [CALL, CALL | {"id": "c2"}]},
    {"role": "tool", "content": "sunny", "tool_call_id": "c1"},
    {"role": "tool", "content": "rainy", "tool_call_id": "c2"},
    {"role": "user", "content": "And?"},
)
END = finish(reason=FinishReason.TOOL_CALLS)
SCRIPTS: dict[str, Sequence[Any]] = {
    "text": (token("Hello"), token(" world"), finish()),
    "reasoning": (thought("Hm"), thought("m."), token("Hello"), finish()),
    "reasoning that was cut": (thought("Hm"), thought("m."), finish(reason=FinishReason.LENGTH)),
    "a call": (call(0, name="look"), call(0, '{"city"'), call(0, ': "Rome"}'), END),
    "calls behind text": (
        *(thought("Hm."), token("I look."), call(0, '{"city": "Rome"}', name="look")),
        *(call(1, '{"city": "Oslo"}', name="look"), END),
    ),
    "a call that was cut": (call(0, '{"city": "Ro', name="look"), finish(reason=FinishReason.LENGTH)),
    "a call without arguments": (call(0, "{}", name="wait"), END),
    "text between calls": (
        *(token("First."), call(0, '{"city": "Rome"}', name="look"), token("Then"), token(".")),
        *(call(1, '{"city": "Oslo"}', name="look"), token("Done."), END),
    ),
}


@pytest.fixture
def script() -> ScriptedService:
    return ScriptedService()


@pytest_asyncio.fixture(params=FRONT_ENDS, loop_scope="module")
async def front_end(
    request: pytest.FixtureRequest, script: ScriptedService, metrics: Metrics, tmp_path: Path
) -> AsyncIterator[ChatFrontEnd]:
    async with FRONT_ENDS[request.param](script, metrics, tmp_path) as front_end:
        yield front_end


async def prompt_of(front_end: ChatFrontEnd, script: ScriptedService, wish: ChatWish) -> ChatPrompt:
    """What the service was asked for."""
    await front_end.ask(wish)
    prompt = script.generation.prompt
    assert isinstance(prompt, ChatPrompt)
    return prompt


@pytest.mark.parametrize("name", SCRIPTS)
async def test_reasoning_text_and_calls_are_heard_apart(
    front_end: ChatFrontEnd, script: ScriptedService, name: str
) -> None:
    script.script = SCRIPTS[name]
    answer = await front_end.ask(ChatWish(tools=(LOOK, WAIT)))
    expected = answer_of(SCRIPTS[name]).choice(0)
    heard = answer.choices[0]
    assert heard.in_no_order == expected.in_no_order
    assert (heard.finish, heard.call_ids) == (expected.finish, expected.call_ids)
    if front_end.keeps_order:
        assert heard.sections == expected.sections
    assert answer.usage == (7, script.stream.num_tokens, script.stream.num_reasoning_tokens)


async def test_choices_are_heard_apart(front_end: ChatFrontEnd, script: ScriptedService) -> None:
    if not front_end.has_choices:
        return
    steps: list[Step] = [
        *(thought("Hm.", 1), call(0, name="look"), token("b", 1), call(0, '{"city": "Rome"}')),
        *(call(0, '{"city": "Oslo"}', name="look", index=1), finish(1, FinishReason.TOOL_CALLS), END),
    ]
    script.script = steps
    answer = await front_end.ask(ChatWish(tools=(LOOK,), n=2))
    expected = answer_of([step for step in steps if not isinstance(step, Exception)])  # type: ignore[misc]
    assert {index: choice.in_no_order for index, choice in answer.choices.items()} == {
        index: choice.in_no_order for index, choice in expected.choices.items()
    }
    assert answer.choices[1].call_ids == ["call_1_0"]


async def test_a_conversation_arrives_as_it_was(front_end: ChatFrontEnd, script: ScriptedService) -> None:
    prompt = await prompt_of(front_end, script, ChatWish(HISTORY, tools=(LOOK, WAIT)))
    assert list(prompt.messages) == list(HISTORY)
    assert (prompt.add_generation_prompt, prompt.continue_final_message) == (True, False)


@pytest.mark.parametrize(
    "choice",
    [
        ToolChoice(),
        ToolChoice(is_parallel=False),
        ToolChoice(ToolMode.NONE),
        ToolChoice(ToolMode.REQUIRED),
        ToolChoice(ToolMode.REQUIRED, "wait", is_parallel=False),
    ],
)
async def test_tools_and_the_choice_among_them_arrive(
    front_end: ChatFrontEnd, script: ScriptedService, choice: ToolChoice
) -> None:
    prompt = await prompt_of(front_end, script, ChatWish(tools=(LOOK, WAIT), tool_choice=choice))
    assert prompt.tools == (LOOK, WAIT)
    assert prompt.tool_choice == choice


@pytest.mark.parametrize(("thinking", "effort"), [(None, None), (True, None), (False, None), (True, "high")])
async def test_whether_and_how_much_to_think_arrives(
    front_end: ChatFrontEnd, script: ScriptedService, thinking: bool | None, effort: str | None
) -> None:
    prompt = await prompt_of(front_end, script, ChatWish(thinking=thinking, effort=effort))
    assert (prompt.thinking, prompt.effort) == (thinking, effort)


async def test_what_the_answer_looks_like_arrives(front_end: ChatFrontEnd, script: ScriptedService) -> None:
    await front_end.ask(ChatWish(schema=SCHEMA))
    wanted = script.generation.output_format
    assert wanted is not None
    assert wanted.kind is OutputKind.JSON_SCHEMA
    assert wanted.text == '{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}'


@pytest.mark.parametrize(
    ("wish", "word"),
    [
        (ChatWish(schema={"description": "x" * 300_000}), "schema"),
        (ChatWish(tools=(Tool("a b"),)), "name"),
        (ChatWish(tools=(LOOK, LOOK)), "tools"),
        (ChatWish(tools=(Tool("f", parameters={"type": "array"}),)), "type"),
        (ChatWish(tools=(LOOK,), tool_choice=ToolChoice(ToolMode.REQUIRED, "other")), "tool_choice"),
        (ChatWish((USER, {"role": "tool", "content": "x", "tool_call_id": "c9"})), "c9"),
        (ChatWish(effort="huge"), "effort"),
    ],
)
async def test_what_cannot_be_is_refused_by_its_field(
    front_end: ChatFrontEnd, script: ScriptedService, wish: ChatWish, word: str
) -> None:
    with pytest.raises(Refused) as refused:
        await front_end.ask(wish)
    assert refused.value.kind == "invalid"
    assert refused.value.param is not None
    assert word in refused.value.param or "call_id" in refused.value.param
    assert script.generations == []


async def test_a_format_that_the_service_refuses_is_refused(front_end: ChatFrontEnd, script: ScriptedService) -> None:
    script.start_step = InvalidRequest("no such format", param="response_format")
    with pytest.raises(Refused) as refused:
        await front_end.ask(ChatWish(schema=SCHEMA))
    assert refused.value.kind == "invalid"
