"""How soon `tailrace serve` answers with a large model: when it packs the weights, and when it maps packed ones.

Starts a server on MODEL in a cache directory of its own, once without packed weights and then with those that the first
start has kept. Shows the time from the start of the process until it is ready, until the first token of a short prompt
and of a long one, and the most memory that any of its processes took beside what all share.
"""

import argparse
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.serving.machine import describe_machine

PLACE = re.compile(r"Serving at http://127\.0\.0\.1:(\d+)/v1")
BOUNDS = ("--port", "0", "--kv-host", "0", "--max-model-tokens", "2048", "--kv-memory", "512MiB")
PROMPTS = (4, 128)  # tokens
LOOK_S = 0.05


@dataclass
class Start:
    """Seconds from the start of the process, and bytes."""

    ready_s: float
    first_token_s: dict[int, float]  # by tokens of the prompt; the prompts come one after the other
    own_bytes: int  # of the process that took most memory that it shares with nobody


def children(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []


def titles(pid: int) -> list[str]:
    found = []
    for child in children(pid):
        try:
            found.append(Path(f"/proc/{child}/cmdline").read_text().split("\0")[0])
        except OSError:
            continue  # it has ended
    return found


def own_bytes(pid: int) -> int:
    """Anonymous memory of whichever process of the server has most of it."""
    sizes = [0]
    for each in (str(pid), *children(pid)):
        try:
            status = Path(f"/proc/{each}/status").read_text()
        except OSError:
            continue  # it has ended
        sizes += [int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("RssAnon")]
    return max(sizes)


def ask(port: int, num_tokens: int) -> None:
    """Until the first token of the answer is there."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    prompt = [5 + place % 50 for place in range(num_tokens)]
    body = json.dumps({"prompt": prompt, "max_tokens": 2, "stream": True, "ignore_eos": True})
    connection.request("POST", "/v1/completions", body, {"content-type": "application/json"})
    assert b"data: {" in connection.getresponse().readline()
    connection.close()


def start(model: Path, options: list[str], prompts: tuple[int, ...]) -> Start:
    """Start a server, ask, wait until it has kept its weights, and stop it."""
    started_s = time.perf_counter()
    command = [sys.executable, "-m", "tailrace.cli", "serve", str(model), *BOUNDS, *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    most = [0]
    watching = threading.Thread(target=_watch, args=(process, most), daemon=True)
    watching.start()
    try:
        assert process.stderr is not None
        port = next(int(match[1]) for line in process.stderr if (match := PLACE.search(line)))
        result = Start(time.perf_counter() - started_s, {}, 0)
        for num_tokens in prompts:
            ask(port, num_tokens)
            result.first_token_s[num_tokens] = time.perf_counter() - started_s
        while "tailrace: loader" in titles(process.pid):
            time.sleep(LOOK_S)
        result.own_bytes = most[0]
        return result
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()


def _watch(process: subprocess.Popen[str], most: list[int]) -> None:
    while process.poll() is None:
        most[0] = max(most[0], own_bytes(process.pid))
        time.sleep(LOOK_S)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.loading.packed",
        description=__doc__,
        epilog="example:\n  tailrace bench synth deepseek-v2-lite --gguf v2-lite.gguf\n"
        "  python -m benchmarks.loading.packed v2-lite.gguf",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=3, help="starts with packed weights, after the one without")
    parser.add_argument("--options", nargs="*", default=[], help="more options of tailrace serve, without their dashes")
    arguments = parser.parse_args()
    options = [f"--{word}" if place % 2 == 0 else word for place, word in enumerate(arguments.options)]
    table = Table("start", "ready", *(f"first token, prompt of {count}" for count in PROMPTS), "own memory", box=None)
    with tempfile.TemporaryDirectory(prefix="tailrace-packed-") as directory:
        os.environ["TAILRACE_CACHE_DIR"] = directory
        for number in range(arguments.rounds + 1):
            prompts = PROMPTS[number > 0 and number % 2 :]  # every other time the long one comes first
            found = start(arguments.model, options, prompts)
            times = [f"{found.first_token_s[count]:.2f} s" if count in found.first_token_s else "" for count in PROMPTS]
            name = "packed anew" if number == 0 else "mapped"
            table.add_row(name, f"{found.ready_s:.2f} s", *times, f"{found.own_bytes / 1e6:.0f} MB")
    console = Console()
    console.print(table)
    console.print(f"{describe_machine()}; prompts one after the other")


if __name__ == "__main__":
    main()
