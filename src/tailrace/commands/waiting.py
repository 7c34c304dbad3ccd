"""A spinner for what takes a moment, on a terminal only."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

__all__ = ["waiting"]


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Say `what` is being waited for while the block runs."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(what):
        yield
