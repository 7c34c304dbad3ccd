"""Measures the CPU time that the HTTP front end spends per streamed token, without a socket and without a model.

A scripted service releases one token to every stream at once, as an engine's step does; the application runs in this
process under uvloop, and a client that only counts receives its messages. What is left is this layer: reading deltas,
building frames, waking tasks. The cost of the scripted service itself is measured alone and shown beside.

    python -m benchmarks.http.streaming [--api chat | completions | responses | messages] [--streams N] [--tokens N]
        [--json]
"""

import argparse
import asyncio
import json
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import asdict, dataclass

import uvloop
from starlette.types import ASGIApp, Message, Scope

from benchmarks.serving.machine import describe_machine
from tailrace.classes import STANDARD
from tailrace.errors import UnavailableError
from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.service.api import ChoiceDelta, Generation, GenerationStream, ModelCard, Prompt, Usage
from tailrace.telemetry.prometheus import Metrics
from tailrace.types import BlockTarget, Explanation, FinishReason, Invalidated, ModelTarget, TenantTarget

_TOKEN = ChoiceDelta(0, " token", token_ids=(1,))
_END = ChoiceDelta(0, "", finish_reason=FinishReason.LENGTH)
_CHAT = b'"messages":[{"role":"user","content":"Hi"}]'
_APIS = {
    "chat": ("/v1/chat/completions", _CHAT),
    "completions": ("/v1/completions", b'"prompt":"Hi"'),
    "responses": ("/v1/responses", b'"input":"Hi"'),
    "messages": ("/v1/messages", b'"max_tokens":1000000,' + _CHAT),
}
"""What is streamed from -> its path and the fields of a body."""


class Beat:
    """Wakes all who wait for the next step."""

    def __init__(self) -> None:
        self._next: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def next(self) -> asyncio.Future[None]:
        return self._next

    def strike(self) -> None:
        done, self._next = self._next, asyncio.get_running_loop().create_future()
        done.set_result(None)


class BeatStream:
    """One token a beat."""

    prompt_tokens = 1

    def __init__(self, beat: Beat, num_tokens: int) -> None:
        self._beat = beat
        self._num_tokens = num_tokens
        self._deltas = [_END, *[_TOKEN] * num_tokens]  # the last is the next

    @property
    def usage(self) -> Usage:
        return Usage(1, self._num_tokens, 0)

    async def take(self) -> Sequence[ChoiceDelta]:
        if not self._deltas:
            return ()
        if self._deltas[-1] is _TOKEN:
            await self._beat.next()
        return (self._deltas.pop(),)

    async def __aiter__(self) -> AsyncIterator[ChoiceDelta]:
        while deltas := await self.take():
            yield deltas[0]

    async def aclose(self) -> None:
        """Nothing is left to abort."""


class BeatService:
    model = ModelCard("bench", (), 0, 1 << 20, 1000)
    classes = STANDARD
    is_ready = True

    def __init__(self, beat: Beat, num_tokens: int) -> None:
        self._beat = beat
        self._num_tokens = num_tokens

    async def start(self, generation: Generation) -> GenerationStream:
        self.begin(generation)
        return BeatStream(self._beat, self._num_tokens)

    def begin(self, generation: Generation) -> None:
        """Say that there is text, as a service does at the first token: until then each piece is looked at."""
        if generation.milestones is not None:
            generation.milestones.text_s = time.monotonic()

    async def explain(self, prompt: Prompt, cache_salt: str) -> Explanation:
        raise UnavailableError("there is no cache")

    async def invalidate(self, target: BlockTarget | TenantTarget | ModelTarget) -> Invalidated:
        raise UnavailableError("there is no cache")

    async def invalidate_prompt(self, prompt: Prompt, cache_salt: str) -> Invalidated:
        raise UnavailableError("there is no cache")

    def tokenize(self, prompt: Prompt) -> list[int]:
        return [1]

    def token_text(self, token_id: int) -> str:
        return " token"

    def detokenize(self, token_ids: Sequence[int]) -> str:
        return " token" * len(token_ids)


@dataclass(frozen=True)
class Result:
    api: str
    streams: int
    tokens_per_stream: int
    front_end_us_per_token: float
    service_us_per_token: float  # of the scripted service, in the figure above
    request_us: float  # all that is done once per request
    machine: str


async def stream_once(app: ASGIApp, api: str) -> int:
    """Reads one stream to its end; returns the bytes of its body."""
    path, fields = _APIS[api]
    body = b"{" + fields + b',"stream":true}'
    inbox: asyncio.Queue[Message] = asyncio.Queue()
    inbox.put_nowait({"type": "http.request", "body": body, "more_body": False})
    num_bytes = 0

    async def send(message: Message) -> None:
        nonlocal num_bytes
        num_bytes += len(message.get("body", b""))

    scope: Scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "root_path": "",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    await app(scope, inbox.get, send)
    return num_bytes


async def read_directly(stream: BeatStream) -> int:
    return sum([1 async for _ in stream])


async def beat_until_done(beat: Beat, readers: list[asyncio.Task[int]]) -> float:
    """CPU seconds until all readers have ended, with the start of the readers left out."""
    for _ in range(10):
        await asyncio.sleep(0)
    started_s = time.process_time()
    while not all(reader.done() for reader in readers):
        beat.strike()
        for _ in range(4):  # rounds of the event loop that a step's tokens take to the client
            await asyncio.sleep(0)
    return time.process_time() - started_s


async def cpu_per_token_s(beat: Beat, readers: list[Coroutine[None, None, int]], num_tokens: int) -> float:
    tasks = [asyncio.ensure_future(reader) for reader in readers]
    cpu_s = await beat_until_done(beat, tasks)
    return cpu_s / (len(tasks) * num_tokens)


async def measure(api: str, num_streams: int, num_tokens: int) -> Result:
    beat = Beat()
    metrics = Metrics(model_name="bench", version="0")
    app = create_app(BeatService(beat, num_tokens), metrics, HttpConfig())
    await cpu_per_token_s(beat, [stream_once(app, api) for _ in range(num_streams)], num_tokens)  # warm
    streamed = await cpu_per_token_s(beat, [stream_once(app, api) for _ in range(num_streams)], num_tokens)
    alone = await cpu_per_token_s(
        beat, [read_directly(BeatStream(beat, num_tokens)) for _ in range(num_streams)], num_tokens
    )
    short = create_app(BeatService(beat, 0), metrics, HttpConfig())
    started_s = time.process_time()
    for _ in range(num_streams):
        await stream_once(short, api)
    per_request = (time.process_time() - started_s) / num_streams
    return Result(
        api,
        num_streams,
        num_tokens,
        round(1e6 * streamed, 2),
        round(1e6 * alone, 2),
        round(1e6 * per_request, 1),
        describe_machine(),
    )


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--api", choices=_APIS, default="chat")
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(given)
    result = uvloop.run(measure(arguments.api, arguments.streams, arguments.tokens))
    if arguments.json:
        print(json.dumps(asdict(result)))
        return
    for name, value in asdict(result).items():
        print(f"{name:28} {value}")


if __name__ == "__main__":
    main()
