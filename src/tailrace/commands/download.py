"""Fetches the default model, with a progress bar, before something that needs it starts."""

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from tailrace.weights.default_model import default_model_path

__all__ = ["fetch_default_model"]


def fetch_default_model(model: str | None) -> None:
    """Make sure that the default model is there, if that is what `model` names. Raises SetupError."""
    if model is not None and model != "default":
        return
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("Fetching the default model", total=None, visible=False)
        default_model_path(lambda done, total: progress.update(task, completed=done, total=total, visible=True))
