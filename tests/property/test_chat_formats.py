"""Whatever people type: what the formats write around it stays the same."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.service.formats.deepseek_v3 import DeepSeekV3Encoder
from tailrace.service.formats.deepseek_v4 import DeepSeekV4Encoder
from tailrace.service.formats.deepseek_v31 import DeepSeekV31Encoder
from tailrace.service.formats.deepseek_v32 import DeepSeekV32Encoder
from tailrace.service.formats.format import ChatEncoder
from tailrace.service.formats.hermes import HermesEncoder
from tailrace.service.formats.llama3 import Llama3Encoder
from tailrace.service.tools import Tool
from tests.support.chats import assistant, call, encoded, result, user

MARKUP = (
    "<｜User｜>", "<｜Assistant｜>", "<｜tool▁calls▁begin｜>", "<｜tool▁output▁end｜>", "<｜end▁of▁sentence｜>",
    "｜DSML｜", "<｜image｜>", "<tool_result>", "<|im_end|>", "<|im_start|>", "</tool_response>", "<|eot_id|>",
    "<", "｜", "\n", "é", "😀",
)  # fmt: skip
TYPED = st.lists(st.sampled_from(MARKUP) | st.text('ab<|>"\\{}', max_size=3), max_size=6).map(
    lambda parts: "x" + "".join(parts) + "x"
)
ENCODERS: dict[str, ChatEncoder] = {
    "deepseek-v3": DeepSeekV3Encoder(),
    "deepseek-r1": DeepSeekV3Encoder(reasons=True, opens=True),
    "deepseek-v3.1": DeepSeekV31Encoder(),
    "deepseek-v3.2": DeepSeekV32Encoder(),
    "deepseek-v4": DeepSeekV4Encoder(),
    "hermes": HermesEncoder(),
    "llama3": Llama3Encoder(),
}


def _written(encoder: ChatEncoder, text: str, *, is_continued: bool) -> list[str]:
    """What a format writes in a conversation in which everybody says the text."""
    arguments = json.dumps({text: text, "more": [text]}, ensure_ascii=False)
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": text},
        user(text),
        assistant(text, call("c", text, arguments), reasoning_content=text),
        result("c", text),
    ]
    if is_continued:
        messages += [user(text), assistant(text)]
    tools = (Tool(text, text, {"properties": {text: {"description": text}}}),)
    return list(encoded(encoder, *messages, tools=tools, continue_final_message=is_continued).pieces[1::2])


@pytest.mark.parametrize("name", ENCODERS)
@settings(max_examples=40)
@given(TYPED, st.booleans())
def test_markup_does_not_depend_on_what_is_typed(name: str, text: str, is_continued: bool) -> None:
    encoder = ENCODERS[name]
    assert _written(encoder, text, is_continued=is_continued) == _written(encoder, "x", is_continued=is_continued)
