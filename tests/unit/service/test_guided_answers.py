"""What an answer has to look like, on its way from a generation to the engine."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tailrace.errors import InvalidRequest
from tailrace.guides.matcher import GuideMatcher
from tailrace.service.api import (
    ChatPrompt,
    Generation,
    ModelCard,
    OutputFormat,
    OutputKind,
    Prompt,
    TextPrompt,
    Tool,
    ToolChoice,
    ToolMode,
)
from tailrace.service.formats.registry import detect_format, named_format
from tailrace.service.guide_tokens import guide_vocabulary, token_table
from tailrace.service.service import TextService
from tailrace.types import Guide, Request, SamplingParams, TokenEvent
from tests.support.deepseek import deepseek_tokenizer
from tests.support.text import ScriptedEngine, byte_level_tokenizer, events_of

TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"
MODEL = ModelCard("tiny", (), created_s=0, max_model_tokens=2000, vocab_size=300, eos_ids=(2,))
PROMPT = TextPrompt("hello")
SUM = OutputFormat(OutputKind.REGEX, r"[0-9]\+[0-9]")
WEATHER = Tool("get_weather", parameters={"type": "object", "properties": {"city": {"enum": ["Rome"]}}})
CHAT = ChatPrompt([{"role": "user", "content": "hello"}], tools=(WEATHER,))
REQUIRED = ToolChoice(ToolMode.REQUIRED)


def _engine() -> ScriptedEngine:
    def script(request: Request) -> Sequence[tuple[TokenEvent, ...]]:
        return [tuple(events_of([65], request_id=request.request_id))]

    return ScriptedEngine(script)


async def _guides(prompt: Prompt = PROMPT, **more: Any) -> list[Guide | None]:
    """Of the choices of a generation, as the engine gets them."""
    engine, tokenizer = _engine(), byte_level_tokenizer()
    service = TextService(engine, tokenizer, detect_format(TEMPLATE, tokenizer), MODEL)
    generation = replace(Generation("r", prompt, SamplingParams(max_tokens=200)), **more)
    async for _ in await service.start(generation):
        pass
    return [request.guide for request in engine.submitted]


def _follows(guide: Guide | None, text: str) -> bool:
    """Whether a text is a whole answer under a guide."""
    assert guide is not None
    tokenizer = byte_level_tokenizer()
    matcher = GuideMatcher(guide_vocabulary(tokenizer, MODEL.eos_ids, MODEL.vocab_size), guide, ())
    try:
        for token_id in tokenizer.encode(text, allow_control=True):
            matcher.accept(token_id)
    except Exception:
        return False
    return matcher.allows_end


async def test_every_choice_follows_the_format() -> None:
    first, second = await _guides(output_format=SUM, n=2)

    assert first == second
    assert _follows(first, "1+2")
    assert not _follows(first, "1+")
    assert not _follows(first, "one")


async def test_a_call_is_demanded_only_where_the_client_demands_it() -> None:
    [demanded] = await _guides(replace(CHAT, tool_choice=REQUIRED))

    assert _follows(demanded, '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>')
    assert not _follows(demanded, '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>')
    assert not _follows(demanded, "hello")
    assert await _guides(CHAT) == [None]
    assert await _guides(replace(CHAT, tool_choice=ToolChoice(ToolMode.NONE))) == [None]


async def test_arguments_of_strict_tools_follow_their_schema_if_they_are_called() -> None:
    [guide] = await _guides(replace(CHAT, tools=(replace(WEATHER, strict=True),)))

    assert _follows(guide, "hello")
    assert _follows(guide, '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>')
    assert not _follows(guide, '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>')


@pytest.mark.parametrize("field", [{"ignore_eos": True}, {"min_tokens": 3}])
async def test_what_would_go_on_behind_the_end_of_a_format_is_refused(field: dict[str, Any]) -> None:
    sampling = SamplingParams(max_tokens=60, **field)
    with pytest.raises(InvalidRequest, match="where the answer ends") as refused:
        await _guides(output_format=SUM, sampling=sampling)
    assert refused.value.param in field
    assert await _guides(sampling=sampling) == [None]


async def test_a_format_that_max_tokens_have_no_room_for_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="max_tokens is 2"):
        await _guides(output_format=SUM, sampling=SamplingParams(max_tokens=2))


async def test_a_format_applies_behind_the_reasoning() -> None:
    engine, tokenizer = _engine(), byte_level_tokenizer()
    service = TextService(engine, tokenizer, named_format("deepseek-v3.1", None, tokenizer), MODEL)
    for thinking in (True, False):
        prompt = ChatPrompt([{"role": "user", "content": "hello"}], thinking=thinking)
        sampling = SamplingParams(max_tokens=60)
        async for _ in await service.start(Generation("r", prompt, sampling, output_format=SUM)):
            pass
    thoughtful, quick = [request.guide for request in engine.submitted]

    assert _follows(thoughtful, "hm</think>1+2")
    assert not _follows(thoughtful, "1+2")
    assert _follows(quick, "1+2")


def test_markup_of_prompts_is_no_text_of_answers() -> None:
    tokenizer = deepseek_tokenizer()
    table = token_table(tokenizer, (1,))

    assert tokenizer.vocabulary.added["<｜tool▁sep｜>"] in table.special_ids
    assert tokenizer.encode("hello", allow_control=False)[0] not in table.special_ids
    assert len(table.tokens) == tokenizer.vocab_size
