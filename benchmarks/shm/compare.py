"""Compares shared memory with server-sent events: time on the way and CPU time a token, and a request's round trip.

One server process gives the same scripted tokens over both; this process is the client of one after the other, in
turn: of HTTP by bare sockets on an event loop, in shared memory on an event loop and with a blocking thread for each
stream. A token's text is the time at which it was made. CPU time is of all threads. A round trip is a request whose
answer has no token, on a connection that is there already, one after the other.

    python -m benchmarks.shm.compare [--streams N] [--tokens N] [--interval-ms X] [--trips N] [--rounds N] [--json]
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

import uvloop

from benchmarks.serving.machine import describe_machine
from tailrace.bench.statistics import percentile
from tailrace.client.client import Client, connect

Trip = Callable[[int], Awaitable[list[int]]]  # so many tokens -> times on the way, in nanoseconds

_BODY = b'{"prompt":"Hi","stream":true,"max_tokens":%d}'
_HEAD = b"POST /v1/completions HTTP/1.1\r\nhost: bench\r\ncontent-length: %d\r\n\r\n"
_END = b"0\r\n"  # of a body in chunks


@dataclass(frozen=True)
class Result:
    client: str
    way_us_p50: float
    way_us_p99: float
    server_cpu_us_per_token: float
    client_cpu_us_per_token: float
    round_trip_us_p50: float


@dataclass
class Samples:
    ways: list[int] = field(default_factory=list)
    server_us: list[float] = field(default_factory=list)
    client_us: list[float] = field(default_factory=list)
    trips: list[int] = field(default_factory=list)


class SseClient:
    """One connection, one answer at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self, num_tokens: int) -> list[int]:
        body = _BODY % num_tokens
        self._writer.write(_HEAD % len(body) + body)
        ways = []
        while (line := await self._reader.readline()) != _END:
            made = line.partition(b'"text":"')[2].partition(b'"')[0].strip()
            if made:
                ways.append(time.monotonic_ns() - int(made))
        await self._reader.readline()
        return ways

    def close(self) -> None:
        self._writer.close()


async def _read_on_loop(client: Client, num_tokens: int) -> list[int]:
    stream = await client.astream("Hi", max_tokens=num_tokens)
    return [time.monotonic_ns() - int(text) async for text in stream]


def _read_blocking(client: Client, num_tokens: int) -> list[int]:
    return [time.monotonic_ns() - int(text) for text in client.stream("Hi", max_tokens=num_tokens)]


def _cpu_ns(pid: int) -> int:
    """Time that all threads of a process have computed."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))


@contextmanager
def _server(interval_s: float) -> Iterator[tuple[int, int, Client]]:
    """Its process, its port, and a client in shared memory."""
    name = f"bench-{os.getpid()}"
    command = [sys.executable, "-m", "benchmarks.shm.server", name, str(interval_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        port = int(process.stdout.readline())
        try:
            with connect(f"shm://{name}") as client:
                yield process.pid, port, client
        finally:
            process.stdin.close()


async def measure(
    num_streams: int, num_tokens: int, interval_s: float, *, num_trips: int, num_rounds: int
) -> list[Result]:
    with _server(interval_s) as (pid, port, client), ThreadPoolExecutor(num_streams) as pool:
        loop = asyncio.get_running_loop()
        sockets = [SseClient(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(num_streams)]
        on_loop = [lambda most: _read_on_loop(client, most)] * num_streams
        blocking = [lambda most: loop.run_in_executor(pool, _read_blocking, client, most)] * num_streams
        readers: dict[str, list[Trip]] = {
            "sse": [each.read for each in sockets],
            "shm": [*on_loop],
            "shm, blocking": [*blocking],
        }
        samples = {name: Samples() for name in readers}
        for _ in range(num_rounds):
            for name, trips in readers.items():
                await _stream(samples[name], trips, num_tokens, pid)
                await _go_and_return(samples[name], trips[0], num_trips)
        for each in sockets:
            each.close()
    return [_result(name, each) for name, each in samples.items()]


async def _stream(samples: Samples, readers: list[Trip], num_tokens: int, pid: int) -> None:
    server_ns, client_ns = _cpu_ns(pid), time.process_time_ns()
    streams = await asyncio.gather(*(read(num_tokens) for read in readers))
    total = num_tokens * len(readers)
    samples.server_us.append((_cpu_ns(pid) - server_ns) / 1e3 / total)
    samples.client_us.append((time.process_time_ns() - client_ns) / 1e3 / total)
    samples.ways += [way for stream in streams for way in stream]


async def _go_and_return(samples: Samples, read: Trip, num_trips: int) -> None:
    for _ in range(num_trips):
        began_ns = time.monotonic_ns()
        await read(1)
        samples.trips.append(time.monotonic_ns() - began_ns)


def _result(name: str, samples: Samples) -> Result:
    ways = sorted(samples.ways)
    return Result(
        name,
        percentile(ways, 50) / 1e3,
        percentile(ways, 99) / 1e3,
        median(samples.server_us),
        median(samples.client_us),
        median(samples.trips) / 1e3,
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--interval-ms", type=float, default=10.0)
    parser.add_argument("--trips", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    results = uvloop.run(
        measure(given.streams, given.tokens, given.interval_ms / 1e3, num_trips=given.trips, num_rounds=given.rounds)
    )
    if given.json:
        print(json.dumps({"machine": describe_machine(), "results": [asdict(each) for each in results]}))
        return
    print(describe_machine())
    for each in results:
        way = f"{each.way_us_p50:6.0f} us P50 {each.way_us_p99:6.0f} us P99 on the way"
        cpu = f"{each.server_cpu_us_per_token:6.1f} us CPU at the server {each.client_cpu_us_per_token:6.1f} here"
        print(f"{each.client:14} {way}  {cpu}  {each.round_trip_us_p50:6.0f} us round trip")


if __name__ == "__main__":
    main()
