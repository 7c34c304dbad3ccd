"""Calls, formats and thinking with the public clients, on real servers: streamed as whole, cut short, over deaths."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import openai
import pytest

from tests.server.process import ServerProcess, serving
from tests.server.test_resumed_streams import Connection

QUESTION: list[Any] = [{"role": "user", "content": "How is the weather in Rome?"}]
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"enum": ["C", "F"]}},
    "required": ["city", "unit"],
    "additionalProperties": False,
}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": name, "description": "The weather now.", "parameters": CITY}}
    for name in ("get_weather", "get_wind")
]
NAMED = {"type": "function", "function": {"name": "get_wind"}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}}
FORMATS: dict[str, dict[str, Any]] = {
    "schema": {"response_format": SCHEMA},
    "regex": {"structured_outputs": {"regex": r"[a-z]+@[a-z]+\.(com|org)"}},
    "choice": {"structured_outputs": {"choice": ["sunny", "sunny and warm", "raining"]}},
    "Lark": {"structured_outputs": {"grammar": 'start: "It is " WORD "."\nWORD: /[a-z]+/'}},
    "GBNF": {"structured_outputs": {"grammar": 'root ::= "It is " [a-z]+ "."'}},
}
Message = dict[str, Any]


def fits(name: str, text: str) -> bool:
    if name == "schema":
        value = json.loads(text)
        return sorted(value) == ["city", "unit"] and isinstance(value["city"], str) and value["unit"] in ("C", "F")
    if name == "choice":
        return text in FORMATS["choice"]["structured_outputs"]["choice"]
    expression = FORMATS["regex"]["structured_outputs"]["regex"] if name == "regex" else r"It is [a-z]+\."
    return re.fullmatch(expression, text) is not None


def whole(client: openai.OpenAI, **fields: Any) -> list[Message]:
    """What each choice says: `content`, `reasoning`, `calls` of name and arguments, and how it ended."""
    answer = client.chat.completions.create(model="default", messages=QUESTION, extra_body=fields)
    return [
        {
            "content": choice.message.content or "",
            "reasoning": choice.message.to_dict().get("reasoning_content") or "",
            "calls": [
                (call.function.name, call.function.arguments)
                for call in choice.message.tool_calls or []
                if call.type == "function"
            ],
            "finish_reason": choice.finish_reason,
        }
        for choice in answer.choices
    ]


def gathered(chunks: Iterator[dict[str, Any]]) -> list[Message]:
    """The same from the chunks of a stream."""
    messages: dict[int, Message] = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            message = messages.setdefault(choice["index"], {"content": "", "reasoning": "", "calls": []})
            delta = choice["delta"]
            message["content"] += delta.get("content") or ""
            message["reasoning"] += delta.get("reasoning_content") or ""
            for call in delta.get("tool_calls") or []:
                if call.get("id"):
                    message["calls"].append((call["function"]["name"], ""))
                name, arguments = message["calls"][call["index"]]
                message["calls"][call["index"]] = (name, arguments + (call["function"].get("arguments") or ""))
            if choice["finish_reason"]:
                message["finish_reason"] = choice["finish_reason"]
    return [messages[index] for index in sorted(messages)]


def streamed(client: openai.OpenAI, on_chunk: Callable[[int], object] = lambda count: None, **fields: Any) -> Any:
    chunks = []
    with client.chat.completions.create(model="default", messages=QUESTION, stream=True, extra_body=fields) as stream:
        for chunk in stream:
            chunks.append(chunk.to_dict())
            on_chunk(len(chunks))
    return gathered(iter(chunks))


@pytest.mark.parametrize(("choice", "names"), [("required", {"get_weather", "get_wind"}), (NAMED, {"get_wind"})])
def test_a_call_that_is_demanded_comes_whole_and_streamed(client: openai.OpenAI, choice: Any, names: set[str]) -> None:
    fields = {"tools": TOOLS, "tool_choice": choice, "temperature": 0.8, "seed": 3, "n": 2, "max_tokens": 64}
    messages = whole(client, **fields)
    assert streamed(client, **fields) == messages
    assert len(messages) == 2
    for message in messages:
        assert message["calls"]
        assert {name for name, _ in message["calls"]} <= names
        assert all(fits("schema", arguments) for _, arguments in message["calls"])


def test_a_call_that_is_demanded_comes_over_responses(client: openai.OpenAI) -> None:
    tools: Any = [{"type": "function", "strict": True, **TOOLS[0]["function"]}]
    fields: Any = {"input": QUESTION, "tools": tools, "tool_choice": "required", "temperature": 0}
    fields["parallel_tool_calls"] = False
    answer = client.responses.create(model="default", max_output_tokens=64, **fields)
    with client.responses.stream(model="default", max_output_tokens=64, **fields) as stream:
        again = stream.get_final_response()
    outputs: Any = [answer.output, again.output]
    calls = [[(item.name, item.arguments) for item in each if item.type == "function_call"] for each in outputs]
    assert calls[0] == calls[1] != []
    assert all(name == "get_weather" and fits("schema", arguments) for name, arguments in calls[0])


def test_a_call_that_is_demanded_comes_over_messages(server: ServerProcess) -> None:
    tools: Any = [{"name": "get_weather", "input_schema": CITY}]
    fields: Any = {"messages": QUESTION, "tools": tools, "max_tokens": 64, "extra_body": {"temperature": 0}}
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as messages:
        answer = messages.messages.create(model="default", tool_choice={"type": "any"}, **fields)
        with messages.messages.stream(model="default", tool_choice={"type": "any"}, **fields) as stream:
            again = stream.get_final_message()
    contents: Any = [answer.content, again.content]
    uses = [[(part.name, part.input) for part in each if part.type == "tool_use"] for each in contents]
    assert uses[0] == uses[1] != []
    assert all(name == "get_weather" and fits("schema", json.dumps(value)) for name, value in uses[0])


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("max_tokens", [16, 48])
def test_an_answer_keeps_its_format_however_short_it_is(client: openai.OpenAI, name: str, max_tokens: int) -> None:
    fields = {**FORMATS[name], "temperature": 1.0, "seed": 5, "n": 3, "logprobs": True, "max_tokens": max_tokens}
    messages = whole(client, **fields)
    assert streamed(client, **fields) == messages
    assert len(messages) == 3
    assert all(fits(name, message["content"]) for message in messages), messages
    assert all(message["finish_reason"] in ("stop", "length") for message in messages)


def test_an_answer_that_had_to_be_closed_says_so(client: openai.OpenAI) -> None:
    fields: Any = {"structured_outputs": {"regex": "[a-z]{1,500}!"}, "max_tokens": 12, "temperature": 0}
    [message] = whole(client, **fields)
    assert re.fullmatch("[a-z]{1,500}!", message["content"])
    assert message["finish_reason"] == "length"


THOUGHT: dict[str, dict[str, Any]] = {
    "schema": {"response_format": SCHEMA, "max_tokens": 90},
    "calls": {"tools": TOOLS, "tool_choice": "required", "max_tokens": 110},
    "answer": {"max_tokens": 60, "ignore_eos": True},
}
DRAWN = {"model": "tiny-deepseek", "thinking": {"type": "enabled"}, "temperature": 0.9, "seed": 11}


@pytest.fixture(scope="module")
def thinker() -> Iterator[ServerProcess]:
    options = ("--kv-memory", "64MiB", "--max-restarts", "1000", "--chat-format", "deepseek-v3.1")
    with serving("tiny-deepseek", *options) as process:
        yield process


@pytest.fixture(scope="module")
def thinking(thinker: ServerProcess) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=thinker.url + "/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.mark.parametrize("name", THOUGHT)
def test_thoughts_come_before_what_is_wanted_though_the_engine_dies(
    thinker: ServerProcess, thinking: openai.OpenAI, name: str
) -> None:
    fields = {**DRAWN, **THOUGHT[name]}
    [expected] = whole(thinking, **fields)
    killed: list[int] = []
    again = streamed(thinking, lambda count: killed.append(thinker.kill("engine")) if count == 9 else None, **fields)
    assert killed
    assert again == [expected]
    assert expected["reasoning"]
    assert name != "schema" or fits("schema", expected["content"])
    assert name != "calls" or all(fits("schema", arguments) for _, arguments in expected["calls"])
    assert bool(expected["calls"]) is (name == "calls")


@pytest.mark.parametrize("name", THOUGHT)
def test_thoughts_and_calls_are_read_on_from_where_a_connection_broke(
    thinker: ServerProcess, thinking: openai.OpenAI, name: str
) -> None:
    body = {"messages": QUESTION, "stream": True, **DRAWN, **THOUGHT[name]}
    headers = {"content-type": "application/json", "x-stream-resumable": "true"}
    with Connection(thinker) as first:
        first.connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        reply = first.connection.getresponse()
        stream_id = reply.headers["x-stream-id"]
        begun, last_event_id = events(reply, 12)
    with Connection(thinker) as second:
        second.connection.request("GET", f"/v1/streams/{stream_id}", headers={"last-event-id": last_event_id})
        rest, _ = events(second.connection.getresponse())
    assert rest[-1] == "[DONE]"
    assert gathered(map(json.loads, begun + rest[:-1])) == whole(thinking, **DRAWN, **THOUGHT[name])


def events(reply: Iterator[bytes], most: int = 1 << 20) -> tuple[list[str], str]:
    """The data of whole events, at most so many, and the last of their ids."""
    found, event_id, last_event_id = [], "", ""
    for line in reply:
        if line.startswith(b"id: "):
            event_id = line.decode()[4:].strip()
        elif line.startswith(b"data: "):
            found.append(line.decode()[6:].strip())
            last_event_id = event_id
            if len(found) == most:
                break
    return found, last_event_id
