"""The console before a model that says what a test wants, and a feed with the same numbers each time.

Chats go through the real front end. What is asked decides what comes: `SCRIPTS` has the words.
"""

import asyncio
import contextlib
import mimetypes
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from tailrace.errors import Overloaded
from tailrace.frontends.api_keys import ApiKeys
from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.listener import bind
from tailrace.frontends.http.serve import serve
from tailrace.frontends.standing import Client
from tailrace.service.api import ChatPrompt, Generation
from tailrace.telemetry.prometheus import Metrics
from tailrace.types import FinishReason
from tests.architecture.tree import PACKAGE
from tests.console.frames import LONG_LIFE, REQUEST_ID, frame
from tests.support.scripted_service import ScriptedService, Step, call, finish, thought, token

__all__ = ["MARKDOWN", "POLICY", "SCRIPTS", "ScriptedServer", "scripted_server", "slowly", "words"]

STATIC = PACKAGE / "frontends" / "console" / "static"
POLICY = "default-src 'self'"
FRAME_S = 0.2  # tests have no time to wait for seconds
_TIMEOUT_S = 20

MARKDOWN = """# A title

Some *emphasis*, `code`, and a [link](https://example.com/a).

1. one

2. two

```python
print("<b>hello</b>")
```

| a | b |
|---|---|
| 1 | 2 |

<script>alert("no")</script><img src=x onerror=alert(1)>

![a picture](https://example.com/picture.png) [bad](javascript:alert(1))
"""


class _Pause(asyncio.Event):
    """A gate that opens by itself after a moment."""

    async def wait(self) -> bool:  # type: ignore[override]  # an Event's says Literal[True]
        await asyncio.sleep(0.02)
        return True


def slowly(steps: Sequence[Step]) -> list[Step]:
    """The same, with a moment before each."""
    return [each for step in steps for each in (_Pause(), step)]


def words(text: str) -> list[Step]:
    """A token a word."""
    return [token(piece) for piece in text.replace(" ", " \0").split("\0")]


def _refuse() -> Sequence[Step]:
    raise Overloaded("the queue of bronze is full", retry_after_s=2.0)


SCRIPTS: dict[str, Callable[[], Sequence[Step]]] = {
    "markdown": lambda: [*slowly(words(MARKDOWN)), finish()],
    "think": lambda: [*slowly([thought("Let me "), thought("see."), *words("It is 42.")]), finish()],
    "call": lambda: [
        call(0, name="weather"),
        call(0, '{"city":'),
        call(0, '"Ulm"}'),
        finish(reason=FinishReason.TOOL_CALLS),
    ],
    "endless": lambda: slowly(words("word " * 2000)),
    "long": lambda: [*words("A sentence of seven words is here.\n\n" * 800), finish()],
    "refuse": _refuse,
    "break": lambda: [*words("Half of it"), RuntimeError("the engine is gone")],
}


def _script_of(generation: Generation) -> Sequence[Step]:
    assert isinstance(generation.prompt, ChatPrompt)
    asked = str(generation.prompt.messages[-1]["content"])
    script = SCRIPTS.get(asked.split(maxsplit=1)[0])
    return script() if script else [*slowly(words(f"You said: {asked}")), finish()]


@dataclass
class ScriptedServer:
    """A server in a thread of its own. While `is_silent`, feeds end at once, as those of a server that restarts."""

    keys: tuple[str, ...] = ()
    service: ScriptedService = field(default_factory=lambda: ScriptedService(script_of=_script_of, most_at_once=1))
    num_feeds: int = 0  # open ones
    is_silent: bool = False

    def __post_init__(self) -> None:
        self._listener = bind("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._keys = ApiKeys({key: Client(name=key) for key in self.keys})
        self._is_ready = threading.Event()
        self._stop = asyncio.Event()

    def run(self) -> None:
        uvloop.run(self._run())

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        await serve(self._app(), self._listener, on_ready=self._is_ready.set, stop=self._stop, grace_s=0.0)

    def wait(self) -> None:
        assert self._is_ready.wait(_TIMEOUT_S)

    def wait_for_feeds(self, number: int) -> None:
        """Until so many are open."""
        deadline_s = time.monotonic() + _TIMEOUT_S
        while self.num_feeds != number:
            assert time.monotonic() < deadline_s, f"{self.num_feeds} feeds are open, not {number}"
            time.sleep(0.02)

    def stop(self) -> None:
        with contextlib.suppress(RuntimeError):  # its loop may have ended by itself
            self._loop.call_soon_threadsafe(self._stop.set)

    def _app(self) -> Starlette:
        api = create_app(self.service, Metrics(model_name="tiny", version="0"), HttpConfig(api_keys=self._keys))
        routes = [
            Route("/", self._page),
            Route("/console/static/{file:path}", self._file),
            Route("/console/feed", self._feed),
            Route("/console/requests/{request_id}", self._life),
            Mount("/", api),
        ]
        return Starlette(routes=routes)

    async def _page(self, request: Request) -> Response:
        return _static("index.html")

    async def _file(self, request: Request) -> Response:
        return _static(request.path_params["file"])

    async def _feed(self, request: Request) -> Response:
        if (refusal := self._refusal(request)) is not None:
            return refusal
        return StreamingResponse(self._frames(), media_type="text/event-stream")

    async def _frames(self) -> AsyncIterator[bytes]:
        self.num_feeds += 1
        try:
            for number in range(1 << 30):
                if self.is_silent:
                    return
                yield b"event: frame\ndata: " + msgspec.json.encode(frame(number, time.time())) + b"\n\n"
                await asyncio.sleep(FRAME_S)
        finally:
            self.num_feeds -= 1

    async def _life(self, request: Request) -> Response:
        if (refusal := self._refusal(request)) is not None:
            return refusal
        known = request.path_params["request_id"] == REQUEST_ID
        return JSONResponse(LONG_LIFE) if known else _failure(404, "nobody knows this request any more")

    def _refusal(self, request: Request) -> Response | None:
        given = request.headers.get("authorization", "").removeprefix("Bearer ").encode()
        is_known = self._keys.client_of(given or None) is not None
        return None if is_known else _failure(401, "this server needs an API key that it knows")


def _failure(status: int, message: str) -> Response:
    return JSONResponse({"error": {"message": message, "code": None}}, status)


def _static(name: str) -> Response:
    kind = mimetypes.guess_type(name)[0] or "text/plain"
    headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}
    return Response((STATIC / name).read_bytes(), media_type=kind, headers=headers)


@contextlib.contextmanager
def scripted_server(*keys: str) -> Iterator[ScriptedServer]:
    server = ScriptedServer(keys)
    thread = threading.Thread(target=server.run)
    thread.start()
    server.wait()
    try:
        yield server
    finally:
        server.stop()
        thread.join(_TIMEOUT_S)
        assert not thread.is_alive()
