"""Compares HTTP servers for many event streams at once: uvicorn with httptools, granian with ASGI and with RSGI.

Each serves the smallest application that streams as the front end does, every stream writing a chunk at each beat of a
common clock. Counted is the CPU time of the whole server process, and how long after its beat a chunk is with the
client. granian is no dependency: name a Python that has granian, uvicorn, httptools and uvloop. Rounds of all servers
alternate; each figure is the median of its rounds, the ratio that to uvicorn in the same round.

    python -m benchmarks.http.servers --python VENV/bin/python [--streams N] [--chunks N] [--rounds N] [--json]
"""

import argparse
import json
import os
import selectors
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.serving.machine import describe_machine

_APPLICATIONS = Path(__file__).parent / "applications"
_SERVERS = ("uvicorn", "granian-asgi", "granian-rsgi")


@dataclass(frozen=True)
class Round:
    cpu_us_per_chunk: float
    latency_p50_us: float
    latency_p99_us: float


def command(server: str, python: str, port: int) -> list[str]:
    start = [python, "-m", server.partition("-")[0], "--host", "127.0.0.1", "--port", str(port)]
    if server == "uvicorn":
        return [*start, "streams:asgi", "--http", "httptools", "--loop", "uvloop", "--log-level", "error"]
    interface = server.partition("-")[2]
    return [*start, f"streams:{interface}", "--interface", interface, "--loop", "uvloop", "--log-level", "error"]


@contextmanager
def running(server: str, python: str) -> Iterator[tuple[int, int]]:
    """Port and process id of a server that answers."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    with subprocess.Popen(command(server, python, port), cwd=_APPLICATIONS) as process:
        try:
            _wait_for(port, process)
            yield port, process.pid
        finally:
            process.terminate()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"the server ended with {process.returncode}: see above")


def cpu_s(pid: int) -> float:
    """CPU seconds of a process and its children, which granian serves with."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own + sum(cpu_s(int(child)) for child in children)


def read_streams(port: int, num_streams: int, num_chunks: int) -> list[float]:
    """Asks for streams and reads them to their end; the latencies in seconds of the chunks by the clock of the host."""
    latencies_s: list[float] = []
    with selectors.DefaultSelector() as readable:
        for _ in range(num_streams):
            connection = socket.create_connection(("127.0.0.1", port))
            connection.sendall(b"GET /%d HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n" % num_chunks)
            readable.register(connection, selectors.EVENT_READ)
        while readable.get_map():
            for key, _ in readable.select():
                assert isinstance(key.fileobj, socket.socket)
                data = key.fileobj.recv(65536)
                now_s = time.monotonic()
                latencies_s += [now_s - float(part.split(b"\n")[0]) for part in data.split(b"data: ")[1:]]
                if not data:
                    readable.unregister(key.fileobj)
                    key.fileobj.close()
    return latencies_s


def measure(server: str, python: str, num_streams: int, num_chunks: int) -> Round:
    with running(server, python) as (port, pid):
        read_streams(port, num_streams, 5)  # warm
        before_s = cpu_s(pid)
        latencies_s = read_streams(port, num_streams, num_chunks)
        spent_s = cpu_s(pid) - before_s
    if len(latencies_s) != num_streams * num_chunks:
        raise RuntimeError(f"{server} sent {len(latencies_s)} chunks of {num_streams * num_chunks}")
    cuts = statistics.quantiles(latencies_s, n=100)
    return Round(1e6 * spent_s / len(latencies_s), 1e6 * cuts[49], 1e6 * cuts[98])


@dataclass(frozen=True)
class Figures:
    server: str
    cpu_us_per_chunk: float
    cpu_ratio: float
    latency_p50_us: float
    latency_p99_us: float


def compare(python: str, servers: Sequence[str], num_streams: int, num_chunks: int, num_rounds: int) -> list[Figures]:
    rounds: dict[str, list[Round]] = {server: [] for server in servers}
    for _ in range(num_rounds):
        for server in servers:
            rounds[server].append(measure(server, python, num_streams, num_chunks))
    return [_figures(server, each, rounds[servers[0]]) for server, each in rounds.items()]


def _figures(server: str, rounds: Sequence[Round], first: Sequence[Round]) -> Figures:
    ratios = [
        ours.cpu_us_per_chunk / max(theirs.cpu_us_per_chunk, 1e-9) for ours, theirs in zip(rounds, first, strict=True)
    ]
    return Figures(
        server,
        round(statistics.median(each.cpu_us_per_chunk for each in rounds), 2),
        round(statistics.median(ratios), 2),
        round(statistics.median(each.latency_p50_us for each in rounds)),
        round(statistics.median(each.latency_p99_us for each in rounds)),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--servers", type=lambda text: text.split(","), default=list(_SERVERS))
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--chunks", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    figures = compare(given.python, given.servers, given.streams, given.chunks, given.rounds)
    if given.json:
        print(json.dumps({"machine": describe_machine(), "servers": [asdict(each) for each in figures]}))
        return
    print(describe_machine())
    for each in figures:
        cpu = f"{each.cpu_us_per_chunk:8.2f} us of CPU per chunk ({each.cpu_ratio:.2f} of the first)"
        print(f"{each.server:14} {cpu}   after {each.latency_p50_us} us, P99 {each.latency_p99_us} us")


if __name__ == "__main__":
    main()
