"""A spinner for what takes a moment, on a terminal only."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["waiting"]


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Say `what` is being waited for while the block runs."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console  # noqa: PLC0415  (a pipe need not pay for it)

    with Console(stderr=True).status(what):
        yield
