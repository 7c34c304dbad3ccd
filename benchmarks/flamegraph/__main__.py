"""`make flamegraph`: a flame graph of a process of a server that has plenty to do.

python -m benchmarks.flamegraph --streams 16 --process "api 0"
"""

import argparse
import json
import os
import secrets
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.serving.server import our_command, started_server

__all__ = ["draw", "loaded"]

_ANSWER_TOKENS = 64
_TIMEOUT_S = 120.0


@contextmanager
def loaded(url: str, num_streams: int) -> Iterator[None]:
    """So many clients, each with a request under way whenever the one before has ended."""
    stop = threading.Event()
    clients = [threading.Thread(target=_ask_until, args=(url, stop, number)) for number in range(num_streams)]
    for client in clients:
        client.start()
    try:
        yield
    finally:
        stop.set()
        for client in clients:
            client.join()


def _ask_until(url: str, stop: threading.Event, number: int) -> None:
    """Each client has prompts of its own, so that there is something to compute."""
    turn = 0
    while not stop.is_set():
        turn += 1
        fields = {"prompt": f"Story {number}.{turn}: " + "once upon a time " * 8, "max_tokens": _ANSWER_TOKENS}
        body = json.dumps({**fields, "ignore_eos": True, "stream": True}).encode()
        asked = urllib.request.Request(f"{url}/v1/completions", body, {"content-type": "application/json"})
        with urllib.request.urlopen(asked, timeout=_TIMEOUT_S) as answer:
            answer.read()


def draw(url: str, admin_key: str, process: str, seconds: int) -> bytes:
    """The picture, as SVG."""
    query = urllib.parse.urlencode({"process": process, "seconds": seconds})
    asked = urllib.request.Request(f"{url}/debug/profile?{query}", headers={"authorization": f"Bearer {admin_key}"})
    with urllib.request.urlopen(asked, timeout=_TIMEOUT_S) as answer:
        picture: bytes = answer.read()
    return picture


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make flamegraph")
    parser.add_argument("--model", default="default")
    parser.add_argument("--process", default="engine", help="engine, api 0, or all")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--output", type=Path, default=Path("build/flamegraph.svg"))
    return parser.parse_args(words)


def main() -> None:
    arguments = parse_arguments()
    key = secrets.token_hex(16)
    command = replace(our_command(arguments.model), environment={**os.environ, "TAILRACE_ADMIN_KEY": key})
    with started_server(command) as url, loaded(url, arguments.streams):
        picture = draw(url, key, arguments.process, arguments.seconds)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_bytes(picture)
    print(arguments.output)


if __name__ == "__main__":
    main()
