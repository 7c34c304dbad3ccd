"""Time to the first token of a prompt that is not cached, and that is, by the level that has it.

    python -m benchmarks.kvcache.ttft [--rounds 9] [--prompt-tokens 1500] [--levels host redis] [--json]

For each level below the engine a server computes prompts and is stopped, so that its engine's blocks are gone and the
level's are not; another is started with the same settings. Then each round asks every server for a prompt that is new
(cold), one of those from before (the level), and the same again (the engine): all in turn, so that a noisy machine
meets all of them. Medians, and their ratio to cold. Redis is a server of its own on the loopback interface.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.kvcache.asking import Answer, ask, random_prompt
from benchmarks.serving.machine import describe_machine
from benchmarks.serving.server import ServerCommand, our_command, started_server
from tailrace.levels.config import HOST_DIRECTORY
from tests.support.redis_server import running_redis

__all__ = ["AIMS", "Figure", "figures", "level_of"]

AIMS = {"engine": 0.05, "host": 0.15, "redis": 0.35}  # of cold, at most
FLAGS = {"host": ["--kv-host", "1GiB"], "redis": ["--kv-host", "0"]}
SETTLE_S = 3.0  # for saves to the levels, which nobody waits for


@dataclass(frozen=True, slots=True)
class Figure:
    level: str  # "cold", or where nearly all of the prompt came from
    num_samples: int
    median_ms: float
    ratio: float  # to cold
    aim: float | None


def level_of(answer: Answer) -> str:
    """The level that gave most, if all gave nearly everything; else "cold", or "mixed" when it was neither."""
    if answer.num_found >= 0.9 * answer.num_prompt_tokens:
        return max(answer.found, key=lambda level: answer.found[level])
    return "mixed" if answer.num_found > 0.1 * answer.num_prompt_tokens else "cold"


def figures(answers: Sequence[Answer]) -> list[Figure]:
    """By level, cold first. Raises ValueError without a cold answer."""
    by_level: dict[str, list[float]] = {"cold": []}
    for answer in answers:
        by_level.setdefault(level_of(answer), []).append(answer.first_token_s * 1e3)
    if not by_level["cold"]:
        raise ValueError("no prompt was computed cold: nothing to compare with")
    cold_ms = median(by_level["cold"])
    return [
        Figure(level, len(times_ms), median(times_ms), median(times_ms) / cold_ms, AIMS.get(level))
        for level, times_ms in by_level.items()
    ]


def measure(levels: Sequence[str], num_rounds: int, num_tokens: int, serve: Sequence[str]) -> list[Answer]:
    draw = random.Random(time.time_ns())  # new each time, so that no level knows the prompts from before
    known = [random_prompt(draw, num_tokens) for _ in range(num_rounds)]
    with ExitStack() as stack:
        commands = [stack.enter_context(command_with(level, serve)) for level in levels]
        for level, command in zip(levels, commands, strict=True):
            fill(level, command, known)
        urls = [stack.enter_context(started_server(command)) for command in commands]
        for url in urls:
            ask(url, random_prompt(draw, num_tokens))
        answers = []
        for number, prompt in enumerate(known):
            sys.stderr.write(f"round {number + 1} of {num_rounds}\n")
            for url in urls:
                answers += [ask(url, asked) for asked in (random_prompt(draw, num_tokens), prompt, prompt)]
    return answers


def fill(level: str, command: ServerCommand, prompts: Sequence[Sequence[int]]) -> None:
    """Let a server compute prompts and save them to its level, then end it."""
    sys.stderr.write(f"filling {level}\n")
    with started_server(command) as url:
        for prompt in prompts:
            ask(url, prompt)
        time.sleep(SETTLE_S)


@contextmanager
def command_with(level: str, serve: Sequence[str]) -> Iterator[ServerCommand]:
    """How to start a server with one level below the engine; what the level needs besides runs meanwhile."""
    flags = [*FLAGS[level], "--warm-tokens", "0", *serve]
    if level == "redis":
        with running_redis() as redis:
            yield our_command(*flags, "--kv-redis", redis.url)
    else:
        with TemporaryDirectory(dir=HOST_DIRECTORY) as directory:  # of its own: nothing of others is lost or found
            yield our_command(*flags, "--kv-host-directory", directory)


def to_dict(found: Sequence[Figure]) -> list[dict[str, Any]]:
    return [{field: getattr(figure, field) for field in Figure.__slots__} for figure in found]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kvcache.ttft",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--prompt-tokens", type=int, default=1500)
    parser.add_argument("--levels", nargs="+", choices=["host", "redis"], default=["host", "redis"])
    parser.add_argument("--serve", default="", metavar="ARGS", help="arguments for `tailrace serve`")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    answers = measure(arguments.levels, arguments.rounds, arguments.prompt_tokens, arguments.serve.split())
    found, machine = figures(answers), describe_machine()
    if arguments.json:
        rows = {"machine": machine, "prompt_tokens": arguments.prompt_tokens, "rows": to_dict(found)}
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
        return
    print(f"{machine}; prompts of {arguments.prompt_tokens} tokens, {arguments.rounds} rounds, medians")
    for row in found:
        aim = "" if row.aim is None else f"   aim {row.aim:.0%} or less"
        print(f"{row.level:8} {row.num_samples:4} samples  {row.median_ms:8.1f} ms  {row.ratio:6.1%} of cold{aim}")


if __name__ == "__main__":
    main()
