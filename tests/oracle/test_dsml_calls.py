"""Calls in DSML, beside what DeepSeek's own parser makes of the same answers."""

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from deepseek_recipe import (
    ChatCompletionRequest,
    ConversionOptions,
    InferenceChunk,
    InferenceFinishReason,
    StreamProcessor,
)

from tests.support.call_texts import cut, well_formed
from tests.support.calls import parsed

Parts = list[str | tuple[str, str]]
MODELS = {"deepseek_v4": "DeepSeek-V4-Pro", "deepseek_v41": "DeepSeek-V4.1-Flash"}


@pytest.mark.parametrize("style", MODELS)
def test_well_formed_answers_say_the_same(style: str) -> None:
    chance = random.Random(5)
    for _ in range(60):
        answer = well_formed(chance, style)[0]
        assert parsed(style, *cut(chance, answer)) == _parsed_by_deepseek(MODELS[style], cut(chance, answer)), answer


@pytest.mark.parametrize("style", MODELS)
def test_answers_that_are_cut_off_in_a_value_or_its_end_say_the_same(style: str) -> None:
    chance = random.Random(6)
    num_cut = 0
    while num_cut < 60:
        answer = well_formed(chance, style)[0]
        answer = answer[: chance.randint(0, len(answer))]
        begun = answer.rpartition("<｜DSML｜")[2]
        is_in_value = 'string="' in begun and ">" in begun and not begun.endswith(("<", "</", "｜", "</｜DSML"))
        if is_in_value and "</｜DSML｜" not in begun.partition(">")[2][:-24]:
            num_cut += 1
            assert parsed(style, *cut(chance, answer)) == _parsed_by_deepseek(MODELS[style], [answer]), answer


def _parsed_by_deepseek(model: str, pieces: Sequence[str]) -> Parts:
    parts: Parts = []
    for delta in _deltas(model, pieces):
        if content := delta.get("content"):
            parts.append(content)
        for call in delta.get("tool_calls") or ():
            said = call["function"]
            if name := said.get("name"):
                parts.append((name, ""))
            last = parts[-1]
            assert not isinstance(last, str)
            parts[-1] = (last[0], last[1] + (said.get("arguments") or ""))
    texts = "".join(part for part in parts if isinstance(part, str))
    return [*([texts] if texts else []), *(part for part in parts if not isinstance(part, str))]


def _deltas(model: str, pieces: Sequence[str]) -> Iterator[dict[str, Any]]:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    messages = [{"role": "user", "content": "x"}]
    body = {"model": model, "messages": messages, "thinking": {"type": "disabled"}, "tools": [tool], "stream": True}
    conversation = ChatCompletionRequest(body).convert(ConversionOptions())
    options = conversation.parsing_options
    processor = StreamProcessor(ChatCompletionRequest.chunk_generator(conversation, "id", model), options)
    said = [processor.push(InferenceChunk.ready())]
    said += [processor.push(InferenceChunk.text(piece, 1)) for piece in pieces]
    said += [processor.push(InferenceChunk.finish(InferenceFinishReason.Stop)), processor.finish()]
    for chunks in said:
        for chunk in chunks:
            yield from (choice["delta"] for choice in json.loads(chunk.to_json())["choices"])
