"""The HTTP front end, as the tests of all front ends see it: streamed, and whole."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from starlette.types import ASGIApp

from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.service.api import Service
from tailrace.telemetry.prometheus import Metrics
from tests.contract.front_ends.adapter import FrontEnd, Piece, Refused, Wish
from tests.support.asgi import Answer, Conversation, talk

__all__ = ["over_http", "over_http_whole"]

PATH = "/v1/completions"


@asynccontextmanager
async def over_http(service: Service, metrics: Metrics, directory: Path) -> AsyncIterator[FrontEnd]:
    yield HttpFrontEnd(_app(service, metrics))


@asynccontextmanager
async def over_http_whole(service: Service, metrics: Metrics, directory: Path) -> AsyncIterator[FrontEnd]:
    yield WholeFrontEnd(_app(service, metrics))


def _app(service: Service, metrics: Metrics) -> ASGIApp:
    return create_app(service, metrics, HttpConfig())


class HttpFrontEnd:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def start(self, wish: Wish) -> "HttpReading":
        extra = {"stream": True, "stream_options": {"include_usage": True}}
        return HttpReading(_asked(self._app, wish, extra))


class _Turns(asyncio.Event):
    """Lets one message pass each time it is set, as a full socket does; the start of the answer goes with it."""

    has_started = False

    async def wait(self) -> Literal[True]:
        await super().wait()
        if self.has_started:
            self.clear()
        self.has_started = True
        return True


class HttpReading:
    def __init__(self, conversation: Conversation) -> None:
        self.usage = (0, 0)
        self._conversation = conversation
        self._buffer = b""
        conversation.can_write = _Turns()

    async def __aiter__(self) -> AsyncIterator[Piece]:
        self._buffer = await self._more()
        _check(self._conversation.answer)
        async for frame in self._frames():
            if frame.startswith(b":") or frame == b"data: [DONE]":
                continue
            event = json.loads(frame.removeprefix(b"data: "))
            if "error" in event:
                raise _refused(event["error"], {}, 500)
            self._count(event)
            for choice in event["choices"]:
                yield _piece(choice)

    async def leave(self) -> None:
        self._conversation.leave()

    async def _frames(self) -> AsyncIterator[bytes]:
        while True:
            *frames, self._buffer = self._buffer.split(b"\n\n")
            for frame in frames:
                yield frame
            if not (more := await self._more()):
                return
            self._buffer += more

    async def _more(self) -> bytes:
        """What comes next; nothing at the end."""
        self._conversation.can_write.set()
        reading = asyncio.ensure_future(self._conversation.read())
        await asyncio.wait((reading, self._conversation.task), return_when=asyncio.FIRST_COMPLETED)
        if reading.done():
            return reading.result()
        reading.cancel()
        return b""

    def _count(self, event: Mapping[str, Any]) -> None:
        if usage := event.get("usage"):
            self.usage = usage["prompt_tokens"], usage["completion_tokens"]


class WholeFrontEnd:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def start(self, wish: Wish) -> "WholeReading":
        return WholeReading(_asked(self._app, wish, {}))


class WholeReading:
    def __init__(self, conversation: Conversation) -> None:
        self.usage = (0, 0)
        self._conversation = conversation

    async def __aiter__(self) -> AsyncIterator[Piece]:
        answer = await self._conversation.end()
        _check(answer)
        whole = answer.json()
        self.usage = whole["usage"]["prompt_tokens"], whole["usage"]["completion_tokens"]
        for choice in whole["choices"]:
            yield _piece(choice)

    async def leave(self) -> None:
        self._conversation.leave()


def _asked(app: ASGIApp, wish: Wish, extra: Mapping[str, Any]) -> Conversation:
    fields: dict[str, Any] = {"prompt": wish.prompt, "max_tokens": wish.max_tokens, "n": wish.n, **extra}
    fields |= {"temperature": wish.temperature, "seed": wish.seed, "logprobs": wish.logprobs, "stop": list(wish.stop)}
    fields |= {"top_p": wish.top_p, "service_tier": wish.service_class or None}
    headers = {
        "content-type": "application/json",
        "x-gateway-inference-fairness-id": wish.tenant,
    }
    return talk(app, PATH, json.dumps(fields).encode(), headers=headers)


def _piece(choice: Mapping[str, Any]) -> Piece:
    logprobs = (choice.get("logprobs") or {}).get("token_logprobs", ())
    return Piece(choice["index"], choice["text"], choice["finish_reason"], choice.get("stop_reason"), tuple(logprobs))


def _check(answer: Answer) -> None:
    if answer.status is not None and answer.status != 200:
        raise _refused(answer.json()["error"], answer.headers, answer.status)


def _refused(error: Mapping[str, Any], headers: Mapping[str, str], status: int) -> Refused:
    retry_after_s = float(headers["retry-after-ms"]) / 1e3 if "retry-after-ms" in headers else None
    if status == 400:
        return Refused("too long" if error["code"] == "context_length_exceeded" else "invalid", error["param"])
    if status == 429:
        return Refused("overloaded", None, retry_after_s)
    return Refused("unavailable", None, retry_after_s) if status == 503 else Refused("failed")
