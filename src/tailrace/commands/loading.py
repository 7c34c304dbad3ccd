"""A bar for models that take a while to load. Quick ones, and pipes, see nothing and pay nothing."""

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["LoadingBar"]

_PATIENCE_S = 1.0


class LoadingBar:
    """Called with tensors loaded and tensors in all, by whichever thread loads."""

    def __init__(self, what: str = "Loading the model") -> None:
        self._what = what
        self._started_s = time.monotonic()
        self._bar: tuple[Progress, TaskID] | None = None

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None:
            if not sys.stderr.isatty() or time.monotonic() - self._started_s < _PATIENCE_S:
                return
            self._bar = _open_bar(self._what)
        bar, task = self._bar
        bar.update(task, completed=done, total=total)
        if done == total:
            bar.stop()


def _open_bar(what: str) -> "tuple[Progress, TaskID]":
    # Only who waits needs it: every other start would pay for the import.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=None)
    bar.start()
    return bar, task
