"""Progress on a terminal, silence in a pipe. It goes to standard error: standard output is for results."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tailrace.bench.load import Sample

__all__ = ["RequestProgress"]


class RequestProgress:
    """A bar that counts requests, and says how many failed."""

    def __init__(self, total: int) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("", total=total)
        self._num_failed = 0

    def __enter__(self) -> "RequestProgress":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()

    def advance(self, sample: Sample) -> None:
        self._num_failed += not sample.streamed.is_ok
        description = f"{self._num_failed} failed" if self._num_failed else ""
        self._progress.update(self._task, advance=1, description=description)
