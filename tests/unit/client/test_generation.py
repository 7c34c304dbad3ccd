"""Options of the library as generations."""

from typing import Any

import pytest

from tailrace.client.generation import generation_of
from tailrace.client.options import Options, PromptLike
from tailrace.errors import InvalidRequest
from tailrace.service.api import (
    ChatPrompt,
    InfillPrompt,
    OutputFormat,
    OutputKind,
    Standing,
    TextPrompt,
    Tool,
    ToolChoice,
    ToolMode,
)
from tailrace.types import SamplingParams

CHAT = [{"role": "user", "content": "Hi"}]
LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def test_every_option_reaches_the_generation() -> None:
    options = Options(
        max_tokens=5,
        top_k=3,
        logit_bias={3: 1.0},
        stop="x",
        stop_token_ids=[4],
        seed=9,
        service_class="gold",
        tenant="me",
    )
    given = generation_of("Hi", options)
    assert given.prompt == TextPrompt("Hi")
    assert given.sampling == SamplingParams(5, top_k=3, logit_bias=((3, 1.0),), stop_token_ids=(4,))
    assert (given.stop, given.seed, given.standing) == (("x",), 9, Standing("gold", "me"))
    assert generation_of("a", Options(suffix="c", stop=["x", "y"])).prompt == InfillPrompt("a", "c")
    assert generation_of("a", Options()).sampling.max_tokens == 0  # as many as the context leaves


def test_tools_thinking_and_formats_reach_it_too() -> None:
    options = Options(tools=[LOOK], tool_choice="required", parallel_tool_calls=False, reasoning_effort="low")
    assert generation_of(CHAT, options).prompt == ChatPrompt(
        CHAT,
        tools=(Tool("look", parameters={"type": "object"}),),
        tool_choice=ToolChoice(ToolMode.REQUIRED, is_parallel=False),
        effort="low",
    )
    off = generation_of(CHAT, Options(thinking=False)).prompt
    assert isinstance(off, ChatPrompt)
    assert off.thinking is False
    wanted = generation_of("Hi", Options(structured_outputs={"regex": "a+"})).output_format
    assert wanted == OutputFormat(OutputKind.REGEX, "a+", param="structured_outputs.regex")


@pytest.mark.parametrize(
    ("prompt", "options", "param"),
    [
        ("Hi", {"tools": [LOOK]}, "tools"),
        ("Hi", {"thinking": True}, "thinking"),
        ("Hi", {"suffix": 3}, "suffix"),
        (CHAT, {"suffix": "c"}, "suffix"),
        (CHAT, {"tools": [{"type": "web_search"}]}, "tools[0].type"),
        (CHAT, {"tools": [LOOK], "tool_choice": "sometimes"}, "tool_choice"),
        (CHAT, {"reasoning_effort": "huge"}, "reasoning_effort"),
        (CHAT, {"response_format": {"type": "json_object"}, "min_tokens": 2}, "min_tokens"),
        ([{"role": "king", "content": "x"}], {}, "messages[0].role"),
        ([{"role": "user", "content": "x", "colour": "red"}], {}, "messages[0].colour"),
    ],
)
def test_what_is_wrong_is_refused_by_its_option(prompt: PromptLike, options: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        generation_of(prompt, options)
    assert refused.value.param == param


def test_an_unknown_option_is_an_error_of_the_program() -> None:
    with pytest.raises(TypeError, match="best_of"):
        generation_of("Hi", {"best_of": 2})  # type: ignore[typeddict-unknown-key]  # as a program without a checker says
