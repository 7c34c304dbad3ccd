"""Traces of production services in the format of Azure's: arrival, tokens of the prompt, tokens of the answer."""

import csv
import gzip
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from pathlib import Path

from tailrace.errors import SetupError

__all__ = ["TracedRequest", "conversations", "read_trace"]

_EXCERPT = "azure-conversations-2023.csv.gz"
_COLUMNS = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"]
_MAX_TOKENS = 10_000_000


@dataclass(frozen=True, slots=True)
class TracedRequest:
    at_s: float
    num_prompt_tokens: int
    num_output_tokens: int


def conversations() -> list[TracedRequest]:
    """The excerpt that comes with the package; see the note beside it."""
    packed = files("tailrace.measure").joinpath("data", _EXCERPT).read_bytes()
    return _parse(gzip.decompress(packed).decode("ascii"), _EXCERPT)


def read_trace(path: Path) -> list[TracedRequest]:
    """Raises SetupError for a file that cannot be read or is no such trace, naming the line."""
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    except OSError as error:
        raise SetupError(f"cannot read the trace {path}: {error.strerror or error}") from error
    except (EOFError, UnicodeDecodeError) as error:
        raise SetupError(f"cannot read the trace {path}: {error}") from error
    return _parse(text, str(path))


def _parse(text: str, name: str) -> list[TracedRequest]:
    rows = csv.reader(io.StringIO(text))
    if next(rows, None) != _COLUMNS:
        raise SetupError(f"{name} is no trace: its first line must be {','.join(_COLUMNS)}")
    requests = list(_requests(rows, name))
    if not requests:
        raise SetupError(f"{name} has no requests below its first line")
    return requests


def _requests(rows: Iterable[list[str]], name: str) -> Iterator[TracedRequest]:
    at_s: float | None = None
    for number, row in enumerate(rows, 2):
        try:
            request = _request(row)
            if at_s is not None and request.at_s < at_s:
                raise ValueError("it comes before the line above")
        except ValueError as error:
            raise SetupError(f"{name}, line {number}: {error}") from error
        at_s = request.at_s
        yield request


def _request(row: list[str]) -> TracedRequest:
    if len(row) != len(_COLUMNS):
        raise ValueError(f"{len(row)} values, not {len(_COLUMNS)}")
    at, *counts = row
    num_prompt, num_output = map(int, counts)
    if not (1 <= num_prompt <= _MAX_TOKENS and 1 <= num_output <= _MAX_TOKENS):
        raise ValueError(f"{num_prompt} and {num_output} tokens are no lengths of prompt and answer")
    return TracedRequest(_seconds(at), num_prompt, num_output)


def _seconds(word: str) -> float:
    """Of a date, or of milliseconds since any."""
    if word.isdecimal():
        return int(word) / 1e3
    # Azure writes seven digits of a second, of which older Pythons read six.
    seconds, _, fraction = word.partition(".")
    return datetime.fromisoformat(f"{seconds}+00:00").timestamp() + float(f"0.{fraction or 0}")
