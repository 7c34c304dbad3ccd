"""Compares gRPC with server-sent events: bytes on the wire, CPU time of the server and time on the way, a token.

One server process gives the same scripted tokens over HTTP and gRPC; this process is the client of one after the other,
in turn. A token's text is the time at which it was made. Bytes are those that a proxy passes on for one stream, with
headers and all that the protocols say besides; CPU time is of all threads of the server.

    python -m benchmarks.grpc.compare [--streams N] [--tokens N] [--interval-ms X] [--rounds N] [--json]
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import grpc
import uvloop
from smg_grpc_proto.generated import vllm_engine_pb2

from benchmarks.serving.machine import describe_machine
from tailrace.bench.statistics import percentile
from tailrace.frontends.grpc.v1 import inference_pb2 as pb

Read = Callable[[int, int], Awaitable[list[int]]]  # of a port, so many tokens -> times on the way, in nanoseconds

_BODY = b'{"messages":[{"role":"user","content":"Hi"}],"stream":true,"max_tokens":%d}'


@dataclass(frozen=True)
class Result:
    protocol: str
    bytes_per_token: float
    server_cpu_us_per_token: float
    way_us_p50: float
    way_us_p99: float


async def _read_sse(port: int, num_tokens: int) -> list[int]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = _BODY % num_tokens
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
    writer.write(head % len(body) + body)
    ways = []
    async for line in reader:
        if line.startswith(b'data: {"id"') and (content := line.partition(b'"content":"')[2]):
            made = content.partition(b'"')[0].strip()
            if made:
                ways.append(time.monotonic_ns() - int(made))
    writer.close()
    return ways


async def _read_grpc(port: int, num_tokens: int) -> list[int]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        generate: grpc.aio.UnaryStreamMultiCallable[pb.GenerateRequest, pb.GenerateResponse] = channel.unary_stream(
            "/tailrace.v1.Inference/Generate", pb.GenerateRequest.SerializeToString, pb.GenerateResponse.FromString
        )
        call = generate(pb.GenerateRequest(text="Hi", max_tokens=num_tokens))
        return [time.monotonic_ns() - int(message.text) async for message in call if message.text]


async def _read_vllm(port: int, num_tokens: int) -> list[int]:
    """Token ids do not say when they were made."""
    request = vllm_engine_pb2.GenerateRequest(
        request_id="bench",
        text="Hi",
        stream=True,
        sampling_params=vllm_engine_pb2.SamplingParams(max_tokens=num_tokens),
    )
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        generate: grpc.aio.UnaryStreamMultiCallable[
            vllm_engine_pb2.GenerateRequest, vllm_engine_pb2.GenerateResponse
        ] = channel.unary_stream(
            "/vllm.grpc.engine.VllmEngine/Generate",
            vllm_engine_pb2.GenerateRequest.SerializeToString,
            vllm_engine_pb2.GenerateResponse.FromString,
        )
        return [0 async for _ in generate(request)]


_PROTOCOLS: dict[str, Read] = {"sse": _read_sse, "tailrace.v1": _read_grpc, "vllm": _read_vllm}


async def _count_bytes(read: Read, port: int, num_tokens: int) -> float:
    """Bytes a token that the server sends for one stream."""
    num_bytes = 0

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, weight: int) -> None:
        nonlocal num_bytes
        while data := await reader.read(1 << 16):
            num_bytes += weight * len(data)
            writer.write(data)
        writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, far_writer, 0), pump(far_reader, writer, 1))

    async with await asyncio.start_server(connect, "127.0.0.1", 0) as proxy:
        await read(proxy.sockets[0].getsockname()[1], num_tokens)
    return num_bytes / num_tokens


def _cpu_ns(pid: int) -> int:
    """Time that all threads of a process have computed."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))


@contextmanager
def _server(interval_s: float) -> Iterator[tuple[int, dict[str, int]]]:
    command = [sys.executable, "-m", "benchmarks.grpc.server", str(interval_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        http_port, grpc_port = map(int, process.stdout.readline().split())
        yield process.pid, {"sse": http_port, "tailrace.v1": grpc_port, "vllm": grpc_port}
        process.stdin.close()


async def measure(num_streams: int, num_tokens: int, interval_s: float, num_rounds: int) -> list[Result]:
    ways: dict[str, list[int]] = {name: [] for name in _PROTOCOLS}
    cpu_us: dict[str, list[float]] = {name: [] for name in _PROTOCOLS}
    with _server(interval_s) as (pid, ports):
        sizes = {name: await _count_bytes(read, ports[name], num_tokens) for name, read in _PROTOCOLS.items()}
        for _ in range(num_rounds):
            for name, read in _PROTOCOLS.items():
                before = _cpu_ns(pid)
                streams = await asyncio.gather(*(read(ports[name], num_tokens) for _ in range(num_streams)))
                cpu_us[name].append((_cpu_ns(pid) - before) / 1e3 / num_tokens / num_streams)
                ways[name] += [way for stream in streams for way in stream]
    return [_result(name, sizes[name], cpu_us[name], sorted(ways[name])) for name in _PROTOCOLS]


def _result(name: str, size: float, cpu_us: list[float], ways: list[int]) -> Result:
    return Result(name, size, median(cpu_us), percentile(ways, 50) / 1e3, percentile(ways, 99) / 1e3)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--interval-ms", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    results = uvloop.run(measure(given.streams, given.tokens, given.interval_ms / 1e3, given.rounds))
    if given.json:
        print(json.dumps({"machine": describe_machine(), "results": [asdict(each) for each in results]}))
        return
    print(describe_machine())
    for each in results:
        way = f"{each.way_us_p50:6.0f} us P50 {each.way_us_p99:6.0f} us P99 on the way" if each.way_us_p99 else ""
        print(f"{each.protocol:12} {each.bytes_per_token:6.1f} bytes {each.server_cpu_us_per_token:6.1f} us CPU  {way}")


if __name__ == "__main__":
    main()
