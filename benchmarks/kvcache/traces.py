"""Recorded traffic of large services, as requests to a small one: lengths divided, time squeezed.

Two formats, told apart by their first line: CSV with `TIMESTAMP,ContextTokens,GeneratedTokens` (no prompt is known to
share anything), and JSON lines with `timestamp` (ms), `input_length`, `output_length` and `hash_ids`, one for each 512
tokens of the prompt: equal ids stand for an equal beginning of the prompt up to there.
"""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path

__all__ = ["Scale", "TracedRequest", "read_trace"]

HASHED_TOKENS = 512
_MAX_TOKEN_ID = 2**32


@dataclass(frozen=True, slots=True)
class Scale:
    """Lengths are divided by `shrink`, times by `speed`; `max_tokens` bounds prompt and answer together."""

    shrink: int = 16
    speed: float = 1.0
    max_tokens: int = 4096

    def num_tokens(self, recorded: int) -> int:
        return max(recorded // self.shrink, 1)


@dataclass(frozen=True, slots=True)
class TracedRequest:
    arrival_s: float
    runs: tuple[int, ...]  # the prompt: the first token of each run of consecutive ids
    run_tokens: int
    num_prompt_tokens: int
    num_output_tokens: int

    @property
    def prompt_ids(self) -> tuple[int, ...]:
        ids = (first + offset for first in self.runs for offset in range(self.run_tokens))
        return tuple(islice(ids, self.num_prompt_tokens))


def read_trace(path: Path, scale: Scale, num_requests: int | None = None) -> list[TracedRequest]:
    """The first requests of a trace, by arrival; those that are too long once scaled are left out."""
    with path.open(encoding="utf-8") as lines:
        is_csv = lines.readline().startswith("TIMESTAMP")
    read = _read_csv if is_csv else _read_json_lines
    fitting = (
        request
        for request in read(path, scale)
        if request.num_prompt_tokens + request.num_output_tokens <= scale.max_tokens
    )
    return list(islice(fitting, num_requests))


def _read_csv(path: Path, scale: Scale) -> Iterator[TracedRequest]:
    first_s, next_id = None, 0
    with path.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            at_s = _seconds(row["TIMESTAMP"])
            first_s = at_s if first_s is None else first_s
            num_prompt = scale.num_tokens(int(row["ContextTokens"]))
            num_output = scale.num_tokens(int(row["GeneratedTokens"]))
            yield TracedRequest((at_s - first_s) / scale.speed, (next_id,), num_prompt, num_prompt, num_output)
            next_id = (next_id + num_prompt) % (_MAX_TOKEN_ID - scale.max_tokens)


def _seconds(timestamp: str) -> float:
    """Seven digits behind the point, of which `datetime` takes six."""
    return datetime.fromisoformat(timestamp.strip()[:26]).timestamp()


def _read_json_lines(path: Path, scale: Scale) -> Iterator[TracedRequest]:
    run_tokens = max(HASHED_TOKENS // scale.shrink, 1)
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            runs = tuple(hashed * run_tokens for hashed in row["hash_ids"])
            num_prompt = min(scale.num_tokens(row["input_length"]), len(runs) * run_tokens)
            num_output = scale.num_tokens(row["output_length"])
            yield TracedRequest(row["timestamp"] / 1e3 / scale.speed, runs, run_tokens, num_prompt, num_output)
