"""What the console's page asks for: its files, the feed of frames, and one request in full."""

from collections.abc import AsyncIterator
from contextlib import aclosing

import msgspec

from tailrace.frontends.http.config import Patience
from tailrace.frontends.http.console.feed import LiveFeed
from tailrace.frontends.http.console.files import PageFile, page_files
from tailrace.frontends.http.errors import PathNotFound
from tailrace.frontends.http.exchange import Exchange
from tailrace.frontends.http.pulse import Pulse
from tailrace.frontends.http.status import WholeServer
from tailrace.telemetry.feed.life import shown_life
from tailrace.telemetry.http import HttpMetrics

__all__ = ["Console"]

_INDEX = "index.html"
_HEADERS = (
    # Nothing is fetched from anywhere else, whatever an answer says; nobody frames the page.
    (b"content-security-policy", b"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
)


class Console:
    """Its files are for everybody; what it shows is for who has a key, where there are any."""

    def __init__(self, server: WholeServer, feed: LiveFeed, metrics: HttpMetrics, patience: Patience) -> None:
        self._server = server
        self._feed = feed
        self._metrics = metrics
        self._patience = patience

    async def index(self, exchange: Exchange) -> None:
        await _give(exchange, _INDEX)

    async def file(self, exchange: Exchange) -> None:
        await _give(exchange, exchange.path_params["path"])

    async def feed(self, exchange: Exchange) -> None:
        """An event stream of frames, until the client goes or the server ends."""
        if exchange.is_bodiless:
            await exchange.start_stream()
            await exchange.end_stream()  # the connection is free for what comes next
            return
        async with aclosing(self._feed.frames()) as frames:
            first = await anext(frames, None)  # what refuses it has a status yet
            await exchange.unless_gone(self._send(exchange, first, frames))

    async def request(self, exchange: Exchange) -> None:
        """The life of one of the latest requests, in parts: by its own id, or the newest with a client's."""
        request_id = exchange.path_params["request_id"]
        lives = [life for view in await self._server.views() for life in view.lives]
        named = [life for life in lives if life.request_id == request_id]
        named = named or [life for life in lives if life.request_id.startswith(f"{request_id}-")]
        if not named:
            raise PathNotFound(f"request {request_id[:128]} is not known, or not any more")
        newest = max(named, key=lambda life: life.accepted_s)
        await exchange.respond_json(msgspec.json.encode(shown_life(newest)))

    async def _send(self, exchange: Exchange, first: bytes | None, frames: AsyncIterator[bytes]) -> None:
        async with Pulse(exchange, self._patience, self._metrics, b": keep-alive\n\n") as pulse:
            if first is not None:
                await pulse.write(_event(first))
            async for frame in frames:
                await pulse.write(_event(frame))
            await pulse.end(b"")


def _event(frame: bytes) -> bytes:
    return b"event: frame\ndata: %s\n\n" % frame


async def _give(exchange: Exchange, path: str) -> None:
    file = page_files().get(path)
    if file is None:
        raise PathNotFound(f"the console has no file {path[:128]}")
    await _respond(exchange, file)


async def _respond(exchange: Exchange, file: PageFile) -> None:
    headers = (*_HEADERS, (b"etag", file.etag))
    if exchange.headers.get(b"if-none-match") == file.etag:
        await exchange.respond(304, b"", headers)
    else:
        await exchange.respond(200, file.content, headers, content_type=file.content_type)
