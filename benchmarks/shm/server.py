"""Serves one scripted service over HTTP and in shared memory in one process, until its input ends; says its port first.

Started by `benchmarks.shm.compare`. Every stream gets a token at each beat; its text is the time of the beat.
"""

import asyncio
import sys

import uvloop

from benchmarks.grpc.server import Clock, TimedService, TimedStream
from tailrace.frontends.http import serve as http
from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.listener import bind
from tailrace.frontends.shm.lobby import Lobby
from tailrace.frontends.shm.server import serve_shm
from tailrace.service.api import Generation, GenerationStream
from tailrace.telemetry.prometheus import Metrics


class _Service(TimedService):
    """An answer of one token has none, for who wants to know how long it takes there and back."""

    async def start(self, generation: Generation) -> GenerationStream:
        self.begin(generation)
        num_tokens = generation.sampling.max_tokens
        return TimedStream(self._clock, num_tokens if num_tokens > 1 else 0)


async def _run(name: str, interval_s: float) -> None:
    clock = Clock(interval_s)
    service, stop = _Service(clock), asyncio.Event()
    metrics = Metrics(model_name="bench", version="0")
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), stop.set)
    beating = asyncio.create_task(clock.run())
    with bind("127.0.0.1", 0) as listener, Lobby.claim(name) as lobby:
        serving = asyncio.create_task(serve_shm(lobby, service, metrics.shm, stop=stop, grace_s=0))
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        await http.serve(create_app(service, metrics, HttpConfig()), listener, stop=stop, grace_s=0)
        await serving
    beating.cancel()


if __name__ == "__main__":
    uvloop.run(_run(sys.argv[1], float(sys.argv[2])))
