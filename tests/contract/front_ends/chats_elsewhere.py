"""Chats over gRPC and in shared memory."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import msgspec

from tailrace.client.client import Client, ClientOptions
from tailrace.errors import TailraceError
from tailrace.frontends.grpc.v1 import inference_pb2 as pb
from tailrace.service.api import CallDelta, ChoiceDelta, Service, ToolMode
from tailrace.telemetry.prometheus import Metrics
from tailrace.types import FinishReason
from tests.contract.front_ends.adapter import Refused
from tests.contract.front_ends.chat_adapter import ChatAnswer, ChatFrontEnd, ChatWish
from tests.contract.front_ends.chats_over_http import openai_function
from tests.contract.front_ends.over_shm import ShmFrontEnd, over_shm, refused_by
from tests.support.grpc_server import Front, front_end, rich_error

__all__ = ["over_grpc_chat", "over_shm_chat"]

_MODES = {
    ToolMode.AUTO: pb.TOOL_MODE_AUTO,
    ToolMode.NONE: pb.TOOL_MODE_NONE,
    ToolMode.REQUIRED: pb.TOOL_MODE_REQUIRED,
}
_FINISHES = {
    pb.FINISH_UNSPECIFIED: None,
    pb.FINISH_STOP: FinishReason.STOP,
    pb.FINISH_LENGTH: FinishReason.LENGTH,
    pb.FINISH_TOOL_CALLS: FinishReason.TOOL_CALLS,
}


@asynccontextmanager
async def over_grpc_chat(service: Service, metrics: Metrics, directory: Path) -> AsyncIterator[ChatFrontEnd]:
    async with front_end(service, metrics=metrics, grace_s=0.0) as front:
        yield GrpcChat(front)


class GrpcChat:
    keeps_order = True
    has_choices = True

    def __init__(self, front: Front) -> None:
        self._front = front

    async def ask(self, wish: ChatWish) -> ChatAnswer:
        answer = ChatAnswer()
        try:
            async for message in self._front.generate(_request(wish)):
                answer.add(_delta(message))
                if message.HasField("usage"):
                    usage = message.usage
                    answer.usage = usage.prompt_tokens, usage.completion_tokens, usage.reasoning_tokens
        except grpc.aio.AioRpcError as error:
            rich = rich_error(error)
            is_invalid = rich.code is grpc.StatusCode.INVALID_ARGUMENT
            raise Refused("invalid" if is_invalid else "failed", rich.field) from error
        return answer


def _request(wish: ChatWish) -> pb.GenerateRequest:
    choice = wish.tool_choice
    chat = pb.Chat(
        messages=map(_message, wish.messages),
        tools=[
            pb.Tool(
                name=t.name, description=t.description, parameters=msgspec.json.encode(t.parameters), strict=t.strict
            )
            for t in wish.tools
        ],
        tool_choice=pb.ToolChoice(mode=_MODES[choice.mode], name=choice.name or "", is_single=not choice.is_parallel),
        thinking=wish.thinking,
        effort=wish.effort or "",
    )
    schema = None if wish.schema is None else pb.OutputFormat(json_schema=msgspec.json.encode(wish.schema))
    return pb.GenerateRequest(chat=chat, n=wish.n, max_tokens=wish.max_tokens, output_format=schema)


def _message(message: Mapping[str, Any]) -> pb.Message:
    calls = [pb.ToolCall(id=call["id"], **call["function"]) for call in message.get("tool_calls", ())]
    return pb.Message(
        role=message["role"],
        content=message["content"],
        reasoning=message.get("reasoning_content", ""),
        tool_calls=calls,
        tool_call_id=message.get("tool_call_id", ""),
    )


def _delta(message: pb.GenerateResponse) -> ChoiceDelta:
    calls = tuple(CallDelta(each.index, each.arguments, each.id, each.name) for each in message.calls)
    finish = _FINISHES[message.finish]
    return ChoiceDelta(message.index, message.text, finish_reason=finish, reasoning=message.reasoning, calls=calls)


@asynccontextmanager
async def over_shm_chat(service: Service, metrics: Metrics, directory: Path) -> AsyncIterator[ChatFrontEnd]:
    async with over_shm(service, metrics, directory) as front:
        assert isinstance(front, ShmFrontEnd)
        yield ShmChat(front.client)


class ShmChat:
    keeps_order = True
    has_choices = True

    def __init__(self, client: Client) -> None:
        self._client = client

    async def ask(self, wish: ChatWish) -> ChatAnswer:
        answer = ChatAnswer()
        try:
            stream = await self._client.astream(wish.messages, **_options(wish))
            async for delta in stream.adeltas():
                answer.add(delta)
        except TailraceError as error:
            raise refused_by(error) from error
        usage = stream.usage
        answer.usage = usage.prompt_tokens, usage.completion_tokens, usage.reasoning_tokens
        return answer


def _options(wish: ChatWish) -> ClientOptions:
    options = ClientOptions(n=wish.n, max_tokens=wish.max_tokens)
    if wish.tools:
        options["tools"] = [{"type": "function", "function": openai_function(tool)} for tool in wish.tools]
        options["tool_choice"] = wish.tool_choice.mode.value
        options["parallel_tool_calls"] = wish.tool_choice.is_parallel
    if wish.tool_choice.name is not None:
        options["tool_choice"] = {"type": "function", "function": {"name": wish.tool_choice.name}}
    if wish.thinking is not None:
        options["thinking"] = wish.thinking
    if wish.effort is not None:
        options["reasoning_effort"] = wish.effort
    if wish.schema is not None:
        options["response_format"] = {"type": "json_schema", "json_schema": {"name": "n", "schema": wish.schema}}
    return options
