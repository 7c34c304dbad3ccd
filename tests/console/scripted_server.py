"""The console before a model that says what a test wants, and a feed with the same numbers each time.

All that is on the wire goes through the real front end. What is asked decides what comes: `SCRIPTS` has the words.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import count

import msgspec
import uvloop
from starlette.types import ASGIApp

from tailrace.errors import Overloaded
from tailrace.frontends.api_keys import ApiKeys
from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.console.console import Console
from tailrace.frontends.http.console.feed import LiveFeed
from tailrace.frontends.http.listener import bind
from tailrace.frontends.http.serve import serve
from tailrace.frontends.http.status import OneProcess
from tailrace.frontends.standing import Client
from tailrace.service.api import ChatPrompt, Generation
from tailrace.telemetry.prometheus import Metrics
from tailrace.types import FinishReason
from tests.console.frames import frame, long_life
from tests.support.scripted_service import ScriptedService, Step, call, finish, thought, token

__all__ = ["SCRIPTS", "ScriptedServer", "scripted_server", "slowly", "words"]

_FRAME_S = 0.2  # tests have no time to wait for seconds
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
    raise Overloaded("the queue of bronze is full", retry_after_s=600.0)


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


class _Feed(LiveFeed):
    """Counts who looks. While it is silent, it ends at once, as that of a server that restarts."""

    num_open = 0
    is_silent = False

    async def frames(self) -> AsyncGenerator[bytes, None]:
        self.num_open += 1
        try:
            async with aclosing(super().frames()) as frames:
                while not self.is_silent and (each := await anext(frames, None)) is not None:
                    yield each
        finally:
            self.num_open -= 1


@dataclass
class ScriptedServer:
    """A server in a thread of its own."""

    keys: tuple[str, ...] = ()
    service: ScriptedService = field(default_factory=lambda: ScriptedService(script_of=_script_of, most_at_once=1))

    def __post_init__(self) -> None:
        self._listener = bind("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._numbers = count()
        self.feed = _Feed(self._make_frame, every_s=_FRAME_S)
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
        while self.feed.num_open != number:
            assert time.monotonic() < deadline_s, f"{self.feed.num_open} feeds are open, not {number}"
            time.sleep(0.02)

    def stop(self) -> None:
        with contextlib.suppress(RuntimeError):  # its loop may have ended by itself
            self._loop.call_soon_threadsafe(self._stop.set)

    def _app(self) -> ASGIApp:
        metrics = Metrics(model_name="tiny", version="0")
        metrics.lives.end(long_life())
        config = HttpConfig(api_keys=ApiKeys({key: Client(name=key) for key in self.keys}))
        console = Console(OneProcess(metrics), self.feed, metrics.http, config.patience)
        return create_app(self.service, metrics, config, console=console)

    async def _make_frame(self) -> bytes:
        return msgspec.json.encode(frame(next(self._numbers), time.time()))


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
