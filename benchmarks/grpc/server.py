"""Serves one scripted service over HTTP and gRPC in one process, until its input ends; prints the two ports first.

Started by `benchmarks.grpc.compare`. Every stream gets a token at each beat; its text is the time of the beat.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from functools import partial

import uvloop

from benchmarks.http.streaming import BeatService
from tailrace.frontends.grpc.config import GrpcConfig
from tailrace.frontends.grpc.serve import serve_grpc
from tailrace.frontends.http import serve as http
from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.listener import bind
from tailrace.service.api import ChoiceDelta, Generation, GenerationStream, Usage
from tailrace.telemetry.prometheus import Metrics
from tailrace.types import FinishReason


class Clock:
    """The beat that all streams follow, and when it was last."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._next: asyncio.Future[ChoiceDelta] = asyncio.get_running_loop().create_future()

    def next(self) -> asyncio.Future[ChoiceDelta]:
        return self._next

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            done, self._next = self._next, asyncio.get_running_loop().create_future()
            done.set_result(ChoiceDelta(0, f"{time.monotonic_ns()} ", token_ids=(12_345,)))


class TimedStream:
    """`num_tokens` tokens, one a beat."""

    prompt_tokens = 1

    def __init__(self, clock: Clock, num_tokens: int) -> None:
        self._clock = clock
        self._num_tokens = self._num_left = num_tokens
        self._has_ended = False

    @property
    def usage(self) -> Usage:
        return Usage(1, self._num_tokens, 0)

    async def take(self) -> Sequence[ChoiceDelta]:
        if self._num_left:
            self._num_left -= 1
            return (await self._clock.next(),)
        if self._has_ended:
            return ()
        self._has_ended = True
        return (ChoiceDelta(0, "", finish_reason=FinishReason.LENGTH),)

    async def __aiter__(self) -> AsyncIterator[ChoiceDelta]:
        while deltas := await self.take():
            yield deltas[0]

    async def aclose(self) -> None:
        """Nothing is left to abort."""


class TimedService(BeatService):
    """Makes as many tokens as are asked for."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def start(self, generation: Generation) -> GenerationStream:
        self.begin(generation)
        return TimedStream(self._clock, generation.sampling.max_tokens)


async def _run(interval_s: float) -> None:
    clock = Clock(interval_s)
    service, stop = TimedService(clock), asyncio.Event()
    metrics = Metrics(model_name="bench", version="0")
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), stop.set)
    app = create_app(service, metrics, HttpConfig())
    beating = asyncio.create_task(clock.run())
    with bind("127.0.0.1", 0) as listener:
        say = partial(_say, listener.getsockname()[1])
        await asyncio.gather(
            http.serve(app, listener, stop=stop, grace_s=0),
            serve_grpc(service, GrpcConfig(), metrics.grpc, "127.0.0.1:0", stop=stop, on_ready=say, grace_s=0),
        )
    beating.cancel()


def _say(http_port: int, grpc_port: int) -> None:
    sys.stdout.write(f"{http_port} {grpc_port}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    uvloop.run(_run(float(sys.argv[1])))
