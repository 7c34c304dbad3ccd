"""Files of operators with one JSON object a line, read whole within bounds. Every complaint names file and line."""

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from tailrace.errors import SetupError

__all__ = ["decode_lines", "read_lines"]

Row = TypeVar("Row")


def read_lines(path: Path, *, max_bytes: int) -> Iterator[tuple[str, bytes]]:
    """The lines that are not empty, each with its place. Raises SetupError for what cannot be read or is too large."""
    for number, line in enumerate(_read(path, max_bytes).split(b"\n"), 1):
        if line.strip():
            yield f"{path}, line {number}", line


def decode_lines(path: Path, kind: type[Row], *, max_bytes: int) -> Iterator[tuple[str, Row]]:
    """Each line as a struct, with its place. Raises SetupError that names the field, and shows no value of it."""
    decoder = msgspec.json.Decoder(kind)
    for place, line in read_lines(path, max_bytes=max_bytes):
        try:
            yield place, decoder.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise SetupError(f"{place}: {error}") from None


def _read(path: Path, max_bytes: int) -> bytes:
    """The whole file. Raises SetupError for what is none, which may have no end."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise SetupError(f"cannot read {path}: it is no regular file")
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise SetupError(f"cannot read {path}: {error.strerror}") from error
    if len(content) > max_bytes:
        raise SetupError(f"{path} has more than {max_bytes >> 20} MiB: list less in it")
    return content
