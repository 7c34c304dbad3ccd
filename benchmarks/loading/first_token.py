"""How long it takes from the start of a process to the first token of a mixture of experts, and how fast it goes on.

first token: with all weights loaded first (`tailrace complete`), with all being loaded while requests are let in
(`tailrace serve`), and with experts that are loaded when they are chosen (both, with --lazy-experts); with the file in
the system's memory, and without it. Packed weights of earlier starts are not used.

decode: tokens a second of one stream behind its first ones, with memory for all experts, for some of them, and with all
loaded first; what share of the chosen experts was in memory, and what share of the time was spent waiting for others.

The model has DeepSeek-V2-Lite's shape, fewer layers, and random weights: which experts it chooses tells nothing of real
ones. A file is written for it, and removed.
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
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.serving.machine import describe_machine
from tailrace import Engine, EngineConfig
from tailrace.models.registry import build_program
from tailrace.weights.synthetic import SyntheticTensors
from tailrace.weights.synthetic_checkpoint import packed_bytes
from tailrace.weights.synthetic_gguf import write_gguf
from tailrace.weights.synthetic_shapes import SHAPES

PLACE = re.compile(r"Serving at http://127\.0\.0\.1:(\d+)/v1")
BOUNDS = ("--max-model-tokens", "1024", "--kv-memory", "256MiB")
PROMPT = "Once upon a time there was"
EXAMPLES = """examples:
  python -m benchmarks.loading.first_token
  python -m benchmarks.loading.first_token --layers 5 --shares 0.5 1 --tokens 32
"""


@dataclass(frozen=True, slots=True)
class Decoding:
    """One stream, behind its first tokens."""

    name: str
    tokens_per_s: float
    hit_share: float | None = None  # of what was chosen; None: all experts are there
    waited_share: float = 0.0  # of the time
    num_resident: int = 0


def served_first_token_s(model: Path, *options: str) -> float:
    """From the start of a server to its first token."""
    started_s = time.perf_counter()
    words = ["serve", str(model), "--port", "0", "--kv-host", "0", "--weight-cache", "0", *BOUNDS, *options]
    process = subprocess.Popen(_tailrace(words), stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        port = next(int(match[1]) for line in process.stderr if (match := PLACE.search(line)))
        connection = http.client.HTTPConnection("127.0.0.1", port)
        body = json.dumps({"prompt": PROMPT, "max_tokens": 2, "stream": True, "ignore_eos": True})
        connection.request("POST", "/v1/completions", body, {"content-type": "application/json"})
        assert b"data:" in connection.getresponse().readline()
        return time.perf_counter() - started_s
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()


def completed_first_token_s(model: Path, *options: str) -> float:
    """From the start of a program to the first text that it writes."""
    started_s = time.perf_counter()
    words = ["complete", PROMPT, "--model", str(model), "--max-tokens", "1", *options]
    with subprocess.Popen(_tailrace(words), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(1)
        return time.perf_counter() - started_s


def decoding(model: Path, name: str, num_tokens: int, lazy_bytes: int | None) -> Decoding:
    """One stream alone, of an engine that has computed a few others."""
    config = EngineConfig(max_model_tokens=1024, kv_memory_bytes=256 << 20, lazy_experts=lazy_bytes)
    with Engine(str(model), config=config) as engine:
        engine.generate([PROMPT, "Call me"], max_tokens=8, ignore_eos=True)
        before = engine.expert_residency()
        started_s = time.perf_counter()
        engine.generate("It was", max_tokens=num_tokens, ignore_eos=True, temperature=0.8, seed=1)
        took_s = time.perf_counter() - started_s
        after = engine.expert_residency()
    if before is None or after is None:
        return Decoding(name, num_tokens / took_s)
    hits, misses = after.hits - before.hits, after.misses - before.misses
    return Decoding(
        name,
        num_tokens / took_s,
        hits / (hits + misses),
        (after.waited_s - before.waited_s) / took_s,
        after.num_resident,
    )


@contextmanager
def written_model(num_layers: int) -> Iterator[Path]:
    """A file with random weights, removed in the end."""
    config = replace(SHAPES["deepseek-v2-lite"], num_layers=num_layers)
    with tempfile.TemporaryDirectory(prefix="tailrace-first-token-") as directory:
        path = Path(directory) / "model.gguf"
        write_gguf(SyntheticTensors(config, "int4", 0), path, lambda _done, _total: None)
        yield path


def forget(model: Path) -> None:
    """Have the system drop what it keeps of a file in memory."""
    with model.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def first_tokens(model: Path, rounds: int, lazy: Sequence[str]) -> Table:
    ways: dict[str, Callable[[], float]] = {
        "all first": lambda: completed_first_token_s(model),
        "streamed": lambda: served_first_token_s(model),
        "lazy, complete": lambda: completed_first_token_s(model, *lazy),
        "lazy, serve": lambda: served_first_token_s(model, *lazy),
    }
    times: dict[tuple[str, bool], list[float]] = defaultdict(list)
    for _ in range(rounds):
        for is_cached in (False, True):
            for name, measure in ways.items():
                if not is_cached:
                    forget(model)
                times[name, is_cached].append(measure())
    table = Table("first token", "file in memory", "file on disk", box=None, padding=(0, 2, 0, 0))
    for name in ways:
        table.add_row(name, *(f"{median(times[name, is_cached]):.2f} s" for is_cached in (True, False)))
    return table


def decodings(model: Path, num_tokens: int, shares: Sequence[float], expert_bytes: int) -> Table:
    table = Table("decoding", "tok/s", "there", "waited", "experts", box=None, padding=(0, 2, 0, 0))
    bounds = {"all first": None} | {f"lazy, {share:.0%}": int(share * expert_bytes) + 1 for share in shares}
    for name, max_bytes in bounds.items():
        one = decoding(model, name, num_tokens, max_bytes)
        lazy = ("", "") if one.hit_share is None else (f"{one.hit_share:.1%}", f"{one.waited_share:.0%}")
        table.add_row(one.name, f"{one.tokens_per_s:.2f}", *lazy, str(one.num_resident or ""))
    return table


def packed_expert_bytes(num_layers: int) -> int:
    """What all experts take in memory."""
    config = replace(SHAPES["deepseek-v2-lite"], num_layers=num_layers)
    sizes = packed_bytes(build_program(config), "int4")
    return sum(size for name, size in sizes.items() if ".experts." in name)


def _tailrace(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "tailrace.cli", *words]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.loading.first_token",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--layers", type=int, default=7, help="one dense, the rest mixtures [7: a file of 2.7 GB]")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=48, help="of the stream")
    parser.add_argument("--shares", type=float, nargs="*", default=[1.0, 0.5, 0.25], help="of the experts, in memory")
    arguments = parser.parse_args()
    console = Console(highlight=False, markup=False)
    console.print(describe_machine())
    with written_model(arguments.layers) as model:
        expert_bytes = packed_expert_bytes(arguments.layers)
        console.print(f"{model.stat().st_size / 1e9:.2f} GB, of which experts are {expert_bytes / 1e9:.2f} GB")
        console.print(first_tokens(model, arguments.rounds, ("--lazy-experts", str(expert_bytes))))
        console.print(decodings(model, arguments.tokens, arguments.shares, expert_bytes))


if __name__ == "__main__":
    main()
