"""Says on standard error what is being done and for how long: a running clock on a terminal, two lines in a pipe."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

__all__ = ["working"]


@contextmanager
def working(what: str) -> Iterator[None]:
    """Everything that may take more than two seconds happens inside one of these."""
    console = Console(stderr=True, highlight=False, markup=False)
    started_s = time.monotonic()
    if not console.is_terminal:
        console.print(f"{what} ...", soft_wrap=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        progress.add_task(what)
        yield
    console.print(f"{what}: {time.monotonic() - started_s:.0f} s", soft_wrap=True)
