"""Prompts, character by character as DeepSeek's own templates and encoders write them (scripts/oracle)."""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tailrace.service.api import ChatPrompt, Tool
from tailrace.service.formats.deepseek_v3 import DeepSeekV3Encoder
from tailrace.service.formats.deepseek_v4 import DeepSeekV4Encoder
from tailrace.service.formats.deepseek_v31 import DeepSeekV31Encoder
from tailrace.service.formats.deepseek_v32 import DeepSeekV32Encoder
from tailrace.service.formats.format import ChatEncoder
from tests.support.chats import WEATHER, text_of, user

ENCODERS: dict[str, ChatEncoder] = {
    "deepseek-v3": DeepSeekV3Encoder(),
    "deepseek-r1": DeepSeekV3Encoder(reasons=True, opens=True),
    "deepseek-v3.1": DeepSeekV31Encoder(),
    "deepseek-v3.2": DeepSeekV32Encoder(),
    "deepseek-v4": DeepSeekV4Encoder(),
}
SYSTEM = {"role": "system", "content": "SYS"}


@cache
def _expected() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "chat_prompts.json").read_text())
    return loaded


def _tool(function: dict[str, Any]) -> Tool:
    return Tool(function["name"], function["description"], function["parameters"])


@pytest.mark.parametrize("name", ENCODERS)
def test_prompts_are_those_of_the_model_s_own_code(name: str) -> None:
    prompts = [prompt for prompt in _expected()["prompts"] if prompt["format"] == name]
    assert prompts
    for prompt in prompts:
        options = dict(prompt["options"])
        tools = tuple([_tool(tool["function"]) for tool in options.pop("tools", ())])
        asked = ChatPrompt(_expected()["chats"][prompt["chat"]], tools=tools, **options)
        chat = ENCODERS[name].encode(asked)
        assert "".join(chat.pieces) == prompt["text"], (prompt["chat"], options)
        assert prompt["text"].endswith(chat.opened)
        assert chat.opened in ("", "<think>", "<think>\n", "</think>")


@pytest.mark.parametrize(
    ("name", "thinking", "length", "sha256"),
    [
        ("deepseek-v4", False, 1192, "cd05ca54c76106e4d07c5f779c41e9c68b024813540490079405984cdfd62aa3"),
        ("deepseek-v3.2", True, 1334, "a6e31e29e210fdc79480258f697a6801fd2d14a727bcac55e623c63d7120cc3c"),
    ],
)
def test_prompts_with_a_tool_have_their_published_sums(name: str, thinking: bool, length: int, sha256: str) -> None:
    text = text_of(ENCODERS[name], SYSTEM, user("Hi"), tools=(WEATHER,), thinking=thinking)
    assert (len(text), hashlib.sha256(text.encode()).hexdigest()) == (length, sha256)


@pytest.mark.parametrize(
    ("effort", "length", "sha256"),
    [
        ("high", 476, "f7a24f3b3050d4a83781e9b755b316aae2ec1d9dc87562541d90bcb04d7350f7"),
        ("max", 526, "53fb31b8392ec5b4a926481943efc67636748f137c1a49d493a7af4d4fa55d2c"),
    ],
)
def test_much_thought_is_asked_for_in_front_of_everything(effort: str, length: int, sha256: str) -> None:
    text = text_of(ENCODERS["deepseek-v4"], user("Hi"), effort=effort)
    asked = text.removeprefix("<｜begin▁of▁sentence｜>").removesuffix("<｜User｜>Hi<｜Assistant｜><think>")
    assert (len(asked), hashlib.sha256(asked.encode()).hexdigest()) == (length, sha256)
