"""Time to the first token in the first minute after a cold start, by what was there to begin with.

    python -m benchmarks.kvcache.cold_start --trace AzureLLMInferenceTrace_conv.csv [--seconds 60] [--rate 1] [--json]

Four starts: with nothing; with the host level kept from an earlier run; with a list of the system prompts (`--warm`);
with what an earlier run learned (`--warm-state`). Requests come at the times of the trace, thinned out to `--rate`,
from the moment the server says that it is ready: with a list or a state, that is when their prompts are computed. Each
begins with one of 12 system prompts of 768 tokens, some in much use and most in little (Zipf), which the trace has not;
behind it come as many tokens as in the trace, divided by 16.
"""

import argparse
import csv
import json
import random
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.kvcache.asking import Answer, ask, random_prompt
from benchmarks.serving.machine import describe_machine
from benchmarks.serving.server import our_command, started_server
from tailrace.bench.statistics import percentile

__all__ = ["Arrival", "StartFigures", "arrivals_of", "figures_of", "starts"]

NUM_PROMPTS, PROMPT_TOKENS = 12, 768
TAIL_DIVISOR = 16
MAX_IN_FLIGHT = 64
READY_TIMEOUT_S = 120.0
SETTLE_S = 3.0  # for what the earlier run saves, which nobody waits for


@dataclass(frozen=True, slots=True)
class Arrival:
    at_s: float
    token_ids: list[int]


@dataclass(frozen=True, slots=True)
class StartFigures:
    start: str
    num_requests: int
    ready_s: float  # from the start of the process
    p50_ms: float
    p99_ms: float
    cached_share: float  # of all prompt tokens


def arrivals_of(trace: Path, seconds: float, rate: float, draw: random.Random) -> list[Arrival]:
    """Requests of the first `seconds` of a trace, of which enough are left out to come to `rate` a second."""
    with trace.open(newline="") as file:
        rows = [(datetime.fromisoformat(row["TIMESTAMP"]), int(row["ContextTokens"])) for row in csv.DictReader(file)]
    first = rows[0][0]
    early = [(at_s, tokens) for at, tokens in rows if (at_s := (at - first).total_seconds()) < seconds]
    kept = sorted(draw.sample(range(len(early)), min(len(early), round(rate * seconds))))
    return [Arrival(early[index][0], with_prompt(early[index][1] // TAIL_DIVISOR, draw)) for index in kept]


def with_prompt(num_tail_tokens: int, draw: random.Random) -> list[int]:
    (number,) = draw.choices(range(NUM_PROMPTS), [1 / (rank + 1) for rank in range(NUM_PROMPTS)])
    return [*system_prompt(number), *random_prompt(draw, num_tail_tokens + 1)]


def system_prompt(number: int) -> list[int]:
    return random_prompt(random.Random(f"system prompt {number}"), PROMPT_TOKENS)


def figures_of(start: str, ready_s: float, answers: Sequence[Answer]) -> StartFigures:
    times_ms = sorted(answer.first_token_s * 1e3 for answer in answers)
    num_found, num_tokens = sum(one.num_found for one in answers), sum(one.num_prompt_tokens for one in answers)
    p50_ms, p99_ms = (percentile(times_ms, share) for share in (50, 99))
    return StartFigures(start, len(times_ms), ready_s, p50_ms, p99_ms, num_found / num_tokens)


def starts(folder: Path) -> dict[str, list[str]]:
    """The flags of each start; files that they name lie in the folder."""
    listed = folder / "warm.jsonl"
    listed.write_text("".join(json.dumps({"token_ids": system_prompt(one)}) + "\n" for one in range(NUM_PROMPTS)))
    without_host = ["--kv-host", "0"]
    return {
        "nothing": [*without_host, "--warm-tokens", "0"],
        "host level kept": ["--kv-host", "1GiB", "--kv-host-directory", str(folder), "--warm-tokens", "0"],
        "warm list": [*without_host, "--warm-tokens", "0", "--warm", str(listed)],
        "forecast": [*without_host, "--warm-state", str(folder / "state.jsonl")],
    }


def live_before(flags: Sequence[str], arrivals: Sequence[Arrival]) -> None:
    """An earlier run with like traffic, as quickly as it goes."""
    with started_server(our_command(*flags)) as url:
        for arrival in arrivals:
            ask(url, arrival.token_ids)
        time.sleep(SETTLE_S)


def measure(start: str, flags: Sequence[str], arrivals: Sequence[Arrival]) -> StartFigures:
    started_s = time.monotonic()
    with started_server(our_command(*flags)) as url, ThreadPoolExecutor(MAX_IN_FLIGHT) as senders:
        wait_until_ready(url)
        ready_s = time.monotonic() - started_s
        answers = list(senders.map(lambda arrival: ask(url, arrival.token_ids), paced(arrivals)))
    return figures_of(start, ready_s, answers)


def wait_until_ready(url: str) -> None:
    deadline_s = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline_s:
        with suppress(urllib.error.HTTPError), urllib.request.urlopen(url + "/ready", timeout=READY_TIMEOUT_S):
            return
        time.sleep(0.02)
    raise TimeoutError(f"{url} was not ready within {READY_TIMEOUT_S:g} s")


def paced(arrivals: Sequence[Arrival]) -> Iterator[Arrival]:
    """Each when it is due."""
    started_s = time.monotonic()
    for arrival in arrivals:
        time.sleep(max(started_s + arrival.at_s - time.monotonic(), 0.0))
        yield arrival


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kvcache.cold_start",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=1.0, help="requests a second")
    parser.add_argument("--serve", default="", metavar="ARGS", help="arguments for `tailrace serve`")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    before = arrivals_of(arguments.trace, arguments.seconds, arguments.rate, random.Random(1))
    arrivals = arrivals_of(arguments.trace, arguments.seconds, arguments.rate, random.Random(2))
    rows = []
    with TemporaryDirectory() as folder:
        for start, flags in starts(Path(folder)).items():
            sys.stderr.write(f"{start}\n")
            given = [*flags, *arguments.serve.split()]
            if start in {"host level kept", "forecast"}:
                live_before(given, before)
            rows.append(measure(start, given, arrivals))
    if arguments.json:
        figures = {"machine": describe_machine(), "rows": [asdict(row) for row in rows]}
        sys.stdout.write(json.dumps(figures, indent=2) + "\n")
        return
    print(f"{describe_machine()}; first {arguments.seconds:g} s, {arguments.rate:g} requests a second")
    for row in rows:
        times = f"ready {row.ready_s:5.1f} s  TTFT p50 {row.p50_ms:8.1f} ms  p99 {row.p99_ms:8.1f} ms"
        print(f"{row.start:16} {row.num_requests:4} requests  {times}  cached {row.cached_share:.0%}")


if __name__ == "__main__":
    main()
