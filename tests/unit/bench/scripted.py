"""A small HTTP server that answers by script: whole, slow, broken or nonsensical streams, as a test asks for."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Asked", "Script", "ScriptedServer", "chat_chunk", "event", "head", "json_answer", "scripted", "text_chunk"]


@dataclass
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


Script = Callable[[Asked], AsyncIterator[bytes]]
"""Yields the raw bytes of an answer, status line included; the connection closes behind the last."""


@dataclass
class ScriptedServer:
    url: str
    asked: list[Asked] = field(default_factory=list)
    num_open: int = 0
    most_open: int = 0


@asynccontextmanager
async def scripted(script: Script) -> AsyncIterator[ScriptedServer]:
    """Serve `script` on a free port of this machine."""
    state = ScriptedServer("")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        state.num_open += 1
        state.most_open = max(state.most_open, state.num_open)
        try:
            state.asked.append(asked := await _read(reader))
            async for piece in script(asked):
                writer.write(piece)
                await writer.drain()
        except ConnectionError:
            pass  # the client under test hung up, as some tests want
        finally:
            state.num_open -= 1
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        state.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield state


async def _read(reader: asyncio.StreamReader) -> Asked:
    start, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().rstrip().split("\r\n")
    method, path, _ = start.split(" ")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(method, path, headers, json.loads(body or b"{}"))


def head(status: int = 200, *, length: int | None = None) -> bytes:
    """Status line and headers. Without a length the answer ends when the connection closes."""
    framing = "" if length is None else f"Content-Length: {length}\r\n"
    return f"HTTP/1.1 {status} Scripted\r\nConnection: close\r\n{framing}\r\n".encode()


def json_answer(value: Any, status: int = 200) -> bytes:
    body = json.dumps(value).encode()
    return head(status, length=len(body)) + body


def event(value: Any) -> bytes:
    """One server-sent event; a str goes out as it is."""
    return f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()


def text_chunk(text: str, finish: str | None = None) -> bytes:
    return event({"choices": [{"index": 0, "text": text, "finish_reason": finish}]})


def chat_chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def usage_chunk(prompt: int, output: int, cached: int | None = None) -> bytes:
    details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}
    usage = {"prompt_tokens": prompt, "completion_tokens": output, **details}
    return event({"choices": [], "usage": usage})


def whole_answer(texts: Iterable[str], prompt: int = 3) -> bytes:
    """A complete completion stream with usage, in one piece."""
    pieces = list(texts)
    chunks = b"".join(text_chunk(text) for text in pieces)
    return head() + chunks + text_chunk("", "stop") + usage_chunk(prompt, len(pieces)) + event("[DONE]")
