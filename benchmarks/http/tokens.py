"""Measures the CPU time that the API process spends per streamed token, from the engine's events to the sockets.

Everything is as in a server but the model: a driver publishes one event for each stream, as an engine's step does, the
streams of the service make text of them, the front end frames, and uvicorn writes to sockets, which another process
reads. Counted is the CPU time of the thread that does all that, the system's part of the writes included, less what its
loop takes without streams. Rounds of all numbers of streams alternate; the quickest of each counts, the rest is what
other programs took.

    python -m benchmarks.http.tokens [--streams 1,8,32,128] [--tokens N] [--rounds N] [--profile] [--json]
"""

import argparse
import asyncio
import contextlib
import cProfile
import json
import pstats
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass

import uvloop

from benchmarks.serving.machine import describe_machine
from benchmarks.text.streaming import make_tokenizer, words
from tailrace.engine.collector import settle_collector
from tailrace.engine.stream import EventStream, StreamTable
from tailrace.errors import UnavailableError
from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.listener import bind
from tailrace.frontends.http.serve import serve
from tailrace.service.api import ModelCard
from tailrace.service.service import TextService
from tailrace.telemetry.prometheus import Metrics
from tailrace.types import Beginning, Explanation, FinishReason, Invalidated, Request, Target, TokenEvent

_ROUNDS_A_STEP = 6  # of the event loop, in which a step's tokens reach the sockets
_REQUEST = b'{"prompt":[1],"stream":true,"max_tokens":1000000}'


class Metronome:
    """An EngineClient whose step gives each request a token."""

    is_ready = True

    def __init__(self, num_tokens: int) -> None:
        self._table = StreamTable(asyncio.get_running_loop())
        self._token_ids = words(num_tokens)
        self._requests: list[str] = []

    @property
    def received_s(self) -> float:
        return self._table.delivered_s

    @property
    def num_requests(self) -> int:
        return len(self._requests)

    def submit(self, request: Request) -> EventStream:
        self._requests.append(request.request_id)
        return self._table.open(request.request_id)

    def abort(self, request_id: str, reason: FinishReason = FinishReason.ABORT) -> None:
        """Nothing is computed."""

    async def explain(self, prompt_ids: Sequence[int], cache_salt: str) -> Explanation:
        raise UnavailableError("there is no cache")

    async def invalidate(self, target: Target) -> Invalidated:
        raise UnavailableError("there is no cache")

    async def run(self) -> None:
        """All tokens but the last of all requests."""
        beginning: Beginning | None = Beginning(0.0, 0.0, 0.0)
        for token_id in self._token_ids:
            self._table.publish([TokenEvent(each, token_id, beginning=beginning) for each in self._requests])
            beginning = None
            await _turns()

    def end(self) -> None:
        self._table.publish([TokenEvent(each, None, finish_reason=FinishReason.LENGTH) for each in self._requests])
        self._requests.clear()


async def _turns() -> None:
    for _ in range(_ROUNDS_A_STEP):
        await asyncio.sleep(0)


def read_streams(port: int, num_streams: int) -> None:
    """The clients: asks for streams, and reads and drops them until their end."""
    head = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(_REQUEST)}\r\n\r\n"
    with selectors.DefaultSelector() as readable:
        for _ in range(num_streams):
            connection = socket.create_connection(("127.0.0.1", port))
            connection.sendall(head.encode() + _REQUEST)
            readable.register(connection, selectors.EVENT_READ)
        while readable.get_map():
            for key, _ in readable.select():
                assert isinstance(key.fileobj, socket.socket)
                if not key.fileobj.recv(65536):
                    readable.unregister(key.fileobj)
                    key.fileobj.close()


@contextlib.asynccontextmanager
async def clients(port: int, num_streams: int) -> AsyncIterator[None]:
    command = [sys.executable, "-m", "benchmarks.http.tokens", "--read", str(port), "--streams", str(num_streams)]
    process = subprocess.Popen(command)
    try:
        yield
    finally:
        if await asyncio.to_thread(process.wait, 60) != 0:
            raise RuntimeError("the clients failed: see above")


async def cpu_per_token_s(num_streams: int, num_tokens: int, profile: cProfile.Profile | None = None) -> float:
    """CPU seconds of this thread for one token of one stream."""
    idle_s = await _cpu_s(Metronome(num_tokens))
    engine, tokenizer = Metronome(num_tokens), make_tokenizer()
    metrics = Metrics(model_name="bench", version="0")
    card = ModelCard("bench", (), 0, 1 << 30, tokenizer.vocab_size)
    service = TextService(engine, tokenizer, None, card, observe_text=metrics.paths.observer("text"))
    stop, listener = asyncio.Event(), bind("127.0.0.1", 0)
    app = create_app(service, metrics, HttpConfig())
    server = asyncio.create_task(serve(app, listener, stop=stop))
    async with clients(listener.getsockname()[1], num_streams):
        while engine.num_requests < num_streams:
            await asyncio.sleep(0.01)
        with profile or contextlib.nullcontext():
            cpu_s = await _cpu_s(engine)
        engine.end()
    stop.set()
    await server
    return (cpu_s - idle_s) / (num_streams * num_tokens)


async def _cpu_s(engine: Metronome) -> float:
    started_s = time.thread_time()
    await engine.run()
    return time.thread_time() - started_s


@dataclass(frozen=True)
class Figures:
    """Microseconds of CPU per token, by the number of streams."""

    machine: str
    tokens_per_stream: int
    cpu_us_per_token: dict[int, float]


def measure(streams: Sequence[int], num_tokens: int, num_rounds: int) -> Figures:
    costs_s = dict.fromkeys(streams, float("inf"))
    for _ in range(num_rounds):
        for each in streams:
            costs_s[each] = min(costs_s[each], uvloop.run(cpu_per_token_s(each, num_tokens)))
    return Figures(describe_machine(), num_tokens, {each: round(1e6 * cost_s, 2) for each, cost_s in costs_s.items()})


def show_profile(num_streams: int, num_tokens: int) -> None:
    """What the time goes into; that of each call is longer than without the profiler."""
    profile = cProfile.Profile()
    uvloop.run(cpu_per_token_s(num_streams, num_tokens, profile))
    pstats.Stats(profile).sort_stats("tottime").print_stats(30)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=_numbers, default=[1, 8, 32, 128])
    parser.add_argument("--tokens", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="show what the time goes into instead")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--read", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.read is not None:
        read_streams(given.read, given.streams[0])
        return
    if given.profile:
        show_profile(given.streams[-1], given.tokens)
        return
    figures = measure(given.streams, given.tokens, given.rounds)
    if given.json:
        print(json.dumps(asdict(figures)))
        return
    print(figures.machine)
    for streams, cost_us in figures.cpu_us_per_token.items():
        print(f"{streams:4} streams  {cost_us:7.2f} us per token")


if __name__ == "__main__":
    settle_collector()
    main()
