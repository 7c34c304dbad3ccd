"""Chats over HTTP in the three shapes that it has for them, streamed and whole."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from starlette.types import ASGIApp

from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.service.api import Service, Tool, ToolMode
from tailrace.telemetry.prometheus import Metrics
from tests.contract.front_ends.adapter import Refused
from tests.contract.front_ends.chat_adapter import ChatAnswer, ChatChoice, ChatFrontEnd, ChatWish
from tests.support.asgi import named_events, post, sse_data

__all__ = ["SHAPES", "openai_function", "over_http_shape"]

Json = dict[str, Any]


class Shape(Protocol):
    path: str
    has_choices: bool
    keeps_order: bool  # in an answer in one piece
    how_streamed: Json

    def body(self, wish: ChatWish) -> Json: ...

    def whole(self, answer: Json) -> ChatAnswer: ...

    def streamed(self, body: bytes) -> ChatAnswer: ...


@dataclass
class HttpChat:
    app: ASGIApp
    shape: Shape
    is_streamed: bool

    @property
    def keeps_order(self) -> bool:
        return self.is_streamed or self.shape.keeps_order

    @property
    def has_choices(self) -> bool:
        return self.shape.has_choices

    async def ask(self, wish: ChatWish) -> ChatAnswer:
        how = self.shape.how_streamed if self.is_streamed else {}
        answer = await post(self.app, self.shape.path, self.shape.body(wish) | how)
        if answer.status != 200:
            error = answer.json()["error"]
            raise Refused("invalid" if answer.status == 400 else "failed", error.get("param") or error["message"])
        return self.shape.streamed(answer.body) if self.is_streamed else self.shape.whole(answer.json())


def openai_function(tool: Tool) -> Json:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": tool.strict,
    }


class ChatShape:
    path = "/v1/chat/completions"
    has_choices = True
    keeps_order = False
    how_streamed: Json = {"stream": True, "stream_options": {"include_usage": True}}  # noqa: RUF012 - never changed

    def body(self, wish: ChatWish) -> Json:
        fields: Json = {"messages": list(wish.messages), "n": wish.n, "max_tokens": wish.max_tokens}
        fields |= {"thinking": wish.thinking, "reasoning_effort": wish.effort}
        if wish.tools:
            fields["tools"] = [{"type": "function", "function": openai_function(tool)} for tool in wish.tools]
            fields["parallel_tool_calls"] = wish.tool_choice.is_parallel
            fields["tool_choice"] = wish.tool_choice.mode.value
        if wish.tool_choice.name is not None:
            fields["tool_choice"] = {"type": "function", "function": {"name": wish.tool_choice.name}}
        if wish.schema is not None:
            fields["response_format"] = {"type": "json_schema", "json_schema": {"name": "n", "schema": wish.schema}}
        return fields

    def whole(self, answer: Json) -> ChatAnswer:
        found = ChatAnswer()
        for choice in answer["choices"]:
            self._add(found.choice(choice["index"]), choice["message"], choice["finish_reason"])
        self._count(found, answer["usage"])
        return found

    def streamed(self, body: bytes) -> ChatAnswer:
        found = ChatAnswer()
        for event in map(json.loads, sse_data(body)[:-1]):
            for choice in event["choices"]:
                self._add(found.choice(choice["index"]), choice["delta"], choice["finish_reason"])
            if event.get("usage"):
                self._count(found, event["usage"])
        return found

    def _add(self, choice: ChatChoice, message: Json, finish: str | None) -> None:
        assert message.get("reasoning") == message.get("reasoning_content")
        if message.get("reasoning"):
            choice.add("reasoning", message["reasoning"])
        if message.get("content"):
            choice.add("text", message["content"])
        for place, call in enumerate(message.get("tool_calls") or ()):
            function = call["function"]
            number = call.get("index", place)
            choice.add_call(number, function["arguments"], call.get("id", ""), function.get("name", ""))
        choice.finish = finish or choice.finish

    def _count(self, answer: ChatAnswer, usage: Json) -> None:
        reasoning = usage["completion_tokens_details"]["reasoning_tokens"]
        answer.usage = usage["prompt_tokens"], usage["completion_tokens"], reasoning


class ResponsesShape:
    path = "/v1/responses"
    has_choices = False
    keeps_order = True
    how_streamed: Json = {"stream": True}  # noqa: RUF012 - never changed

    def body(self, wish: ChatWish) -> Json:
        fields: Json = {"input": list(self._items(wish.messages)), "max_output_tokens": wish.max_tokens}
        fields |= {"reasoning": {"effort": wish.effort}, "parallel_tool_calls": wish.tool_choice.is_parallel}
        if wish.thinking is not None:
            fields["chat_template_kwargs"] = {"thinking": wish.thinking}
        if wish.tools:
            fields["tools"] = [{"type": "function", **openai_function(tool)} for tool in wish.tools]
            fields["tool_choice"] = wish.tool_choice.mode.value
        if wish.tool_choice.name is not None:
            fields["tool_choice"] = {"type": "function", "name": wish.tool_choice.name}
        if wish.schema is not None:
            fields["text"] = {"format": {"type": "json_schema", "name": "n", "schema": wish.schema}}
        return fields

    def _items(self, messages: Sequence[Mapping[str, Any]]) -> Iterator[Json]:
        for message in messages:
            if message["role"] == "tool":
                result = {"call_id": message["tool_call_id"], "output": message["content"]}
                yield {"type": "function_call_output", **result}
                continue
            if "reasoning_content" in message:
                thought = {"type": "reasoning_text", "text": message["reasoning_content"]}
                yield {"type": "reasoning", "summary": [], "content": [thought]}
            if message["content"]:
                yield {"role": message["role"], "content": message["content"]}
            for call in message.get("tool_calls", ()):
                yield {"type": "function_call", "call_id": call["id"], **call["function"]}

    def whole(self, answer: Json) -> ChatAnswer:
        found = ChatAnswer()
        choice = found.choice(0)
        for place, item in enumerate(answer["output"]):
            if item["type"] == "function_call":
                choice.add_call(place, item["arguments"], item["call_id"], item["name"])
            elif item["content"][0]["text"]:
                choice.add("reasoning" if item["type"] == "reasoning" else "text", item["content"][0]["text"])
        is_cut, has_calls = answer["status"] == "incomplete", bool(choice.all("call"))
        choice.finish = "length" if is_cut else "tool_calls" if has_calls else "stop"
        usage = answer["usage"]
        reasoning = usage["output_tokens_details"]["reasoning_tokens"]
        found.usage = usage["input_tokens"], usage["output_tokens"], reasoning
        return found

    def streamed(self, body: bytes) -> ChatAnswer:
        """Of its deltas; the last event has the rest."""
        events = [event for _, event in named_events(body)]
        found = self.whole(events[-1]["response"])
        choice = ChatChoice(finish=found.choice(0).finish)
        for event in events:
            kind = event["type"].removeprefix("response.")
            if kind == "output_item.added" and event["item"]["type"] == "function_call":
                choice.add_call(event["output_index"], "", event["item"]["call_id"], event["item"]["name"])
            elif kind == "function_call_arguments.delta":
                choice.add_call(event["output_index"], event["delta"])
            elif kind in ("output_text.delta", "reasoning_text.delta"):
                choice.add("text" if kind == "output_text.delta" else "reasoning", event["delta"])
        found.choices = {0: choice}
        return found


_FINISHES = {"end_turn": "stop", "max_tokens": "length", "model_context_window_exceeded": "length"}
_FINISHES |= {"tool_use": "tool_calls"}


class MessagesShape:
    path = "/v1/messages"
    has_choices = False
    keeps_order = True
    how_streamed: Json = {"stream": True}  # noqa: RUF012 - never changed

    def body(self, wish: ChatWish) -> Json:
        fields: Json = {"messages": list(self._turns(wish.messages)), "max_tokens": wish.max_tokens}
        fields["output_config"] = {"effort": wish.effort}
        if wish.thinking is not None:
            fields["thinking"] = {"type": "adaptive" if wish.thinking else "disabled"}
        if wish.tools:
            fields["tools"] = [self._tool(tool) for tool in wish.tools]
            fields["tool_choice"] = self._choice(wish)
        if wish.schema is not None:
            fields["output_config"]["format"] = {"type": "json_schema", "schema": wish.schema}
        return fields

    def _tool(self, tool: Tool) -> Json:
        function = openai_function(tool)
        return {"input_schema": function.pop("parameters"), **function}

    def _choice(self, wish: ChatWish) -> Json:
        choice = wish.tool_choice
        if choice.mode is ToolMode.REQUIRED:
            kind: Json = {"type": "any"} if choice.name is None else {"type": "tool", "name": choice.name}
        else:
            kind = {"type": choice.mode.value}
        return kind | {"disable_parallel_tool_use": not choice.is_parallel}

    def _turns(self, messages: Sequence[Mapping[str, Any]]) -> Iterator[Json]:
        for message in messages:
            role = "user" if message["role"] == "tool" else message["role"]
            yield {"role": role, "content": list(self._blocks(message))}

    def _blocks(self, message: Mapping[str, Any]) -> Iterator[Json]:
        if message["role"] == "tool":
            yield {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
            return
        if "reasoning_content" in message:
            yield {"type": "thinking", "thinking": message["reasoning_content"], "signature": "s"}
        if message["content"]:
            yield {"type": "text", "text": message["content"]}
        for call in message.get("tool_calls", ()):
            function = call["function"]
            given = json.loads(function["arguments"])
            yield {"type": "tool_use", "id": call["id"], "name": function["name"], "input": given}

    def whole(self, answer: Json) -> ChatAnswer:
        found = ChatAnswer()
        choice = found.choice(0)
        for place, block in enumerate(answer["content"]):
            match block["type"]:
                case "thinking":
                    choice.add("reasoning", block["thinking"])
                case "text":
                    choice.add("text", block["text"])
                case "tool_use":
                    raw = block["input"].get("_raw")
                    choice.add_call(place, raw or json.dumps(block["input"]), block["id"], block["name"])
        self._end(found, answer["stop_reason"], answer["usage"])
        return found

    def streamed(self, body: bytes) -> ChatAnswer:
        found = ChatAnswer()
        choice = found.choice(0)
        for _, event in named_events(body):
            match event:
                case {"type": "content_block_start", "content_block": {"type": "tool_use"} as block}:
                    choice.add_call(event["index"], "", block["id"], block["name"])
                case {"delta": {"type": "input_json_delta", "partial_json": text}}:
                    choice.add_call(event["index"], text)
                case {"delta": {"type": "thinking_delta", "thinking": text}}:
                    choice.add("reasoning", text)
                case {"delta": {"type": "text_delta", "text": text}}:
                    choice.add("text", text)
                case {"type": "message_delta"}:
                    self._end(found, event["delta"]["stop_reason"], event["usage"])
        return found

    def _end(self, answer: ChatAnswer, stop_reason: str, usage: Json) -> None:
        answer.choice(0).finish = _FINISHES[stop_reason]
        prompt = usage["input_tokens"] + usage["cache_read_input_tokens"]
        answer.usage = prompt, usage["output_tokens"], usage["output_tokens_details"]["thinking_tokens"]


SHAPES: Mapping[str, Shape] = {"chat": ChatShape(), "responses": ResponsesShape(), "messages": MessagesShape()}


@asynccontextmanager
async def over_http_shape(
    name: str, service: Service, metrics: Metrics, *, is_streamed: bool
) -> AsyncIterator[ChatFrontEnd]:
    yield HttpChat(create_app(service, metrics, HttpConfig()), SHAPES[name], is_streamed)
