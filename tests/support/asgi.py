"""A client that calls an ASGI application directly: every message is seen, and it can go away at any moment."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message, Scope

__all__ = ["Answer", "Conversation", "ask", "named_events", "post", "sse_data", "talk"]


@dataclass
class Answer:
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    pieces: list[bytes] = field(default_factory=list)  # one per send
    is_complete: bool = False

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    def json(self) -> Any:
        return json.loads(self.body)

    def events(self) -> list[Any]:
        """The JSON of each event of a stream that came to its end; [DONE] is checked and left out."""
        *events, done = sse_data(self.body)
        assert done == "[DONE]"
        return [json.loads(event) for event in events]


def sse_data(body: bytes) -> list[str]:
    frames = body.decode().split("\n\n")
    assert frames.pop() == ""
    assert all(frame.startswith("data: ") and "\n" not in frame for frame in frames)
    return [frame.removeprefix("data: ") for frame in frames]


def named_events(body: bytes) -> list[tuple[str, Any]]:
    """The name and the JSON of each event of a stream whose events have names."""
    frames = body.decode().split("\n\n")
    assert frames.pop() == ""
    return [_named_event(frame) for frame in frames]


def _named_event(frame: str) -> tuple[str, Any]:
    name, data = frame.split("\n")
    assert name.startswith("event: ")
    assert data.startswith("data: ")
    event = json.loads(data.removeprefix("data: "))
    assert event["type"] == name.removeprefix("event: ")
    return event["type"], event


class Conversation:
    """One request in flight. `read` waits for the next piece of the answer; `leave` closes the client's side."""

    def __init__(self, app: ASGIApp, scope: Scope, body: bytes, *, is_body_whole: bool = True) -> None:
        self.answer = Answer()
        self.scope = scope
        self._inbox: asyncio.Queue[Message] = asyncio.Queue()
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self.can_write = asyncio.Event()  # cleared: the client does not read
        self.can_write.set()
        self._inbox.put_nowait({"type": "http.request", "body": body, "more_body": not is_body_whole})
        self.task = asyncio.ensure_future(app(scope, self._inbox.get, self._send))

    async def _send(self, message: Message) -> None:
        await self.can_write.wait()
        assert not self.answer.is_complete, "a message after the end of the answer"
        if message["type"] == "http.response.start":
            assert self.answer.status is None, "two starts"
            self.answer.status = message["status"]
            self.answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            return
        assert self.answer.status is not None, "a body before the start"
        if message["body"]:
            self.answer.pieces.append(message["body"])
            self._pieces.put_nowait(message["body"])
        if not message["more_body"]:
            self.answer.is_complete = True
            self._inbox.put_nowait({"type": "http.disconnect"})  # as servers do once an answer is complete

    async def read(self) -> bytes:
        return await self._pieces.get()

    def leave(self) -> None:
        self._inbox.put_nowait({"type": "http.disconnect"})

    async def end(self) -> Answer:
        """The answer, once the application has returned."""
        await asyncio.wait_for(self.task, 10)
        return self.answer


def talk(
    app: ASGIApp,
    path: str,
    body: bytes = b"",
    *,
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
    is_body_whole: bool = True,
) -> Conversation:
    given = {"content-type": "application/json"} if headers is None else headers
    scope: Scope = {
        "type": "http",
        "method": method,
        "path": path.partition("?")[0],
        "raw_path": path.partition("?")[0].encode(),
        "root_path": "",
        "query_string": path.partition("?")[2].encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
    }
    return Conversation(app, scope, body, is_body_whole=is_body_whole)


async def ask(app: ASGIApp, path: str, *, method: str = "GET", headers: Mapping[str, str] | None = None) -> Answer:
    return await talk(app, path, method=method, headers=headers or {}).end()


async def post(app: ASGIApp, path: str, fields: Mapping[str, object], **headers: str) -> Answer:
    """Posts fields as JSON; a header's underscores stand for dashes."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return await talk(
        app, path, json.dumps(fields).encode(), headers={"content-type": "application/json", **given}
    ).end()
