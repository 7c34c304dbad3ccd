"""Where an output comes into being: beside its final name, which it takes once it is whole."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tailrace.errors import SetupError

__all__ = ["refuse_too_large", "taking_shape"]


@contextmanager
def taking_shape(path: Path, *, may_replace: bool, source: Path) -> Iterator[Path]:
    """The name to write file or directory `path` under meanwhile; it is renamed when the block ends well.

    Raises SetupError when `path` is there and may not be replaced, or cannot be written.
    """
    _check(path, may_replace, source)
    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as own:
            part = Path(own) / path.name
            yield part
            if path.is_dir():
                path.rename(Path(own) / "replaced")  # a directory is never renamed onto one with files
            part.rename(path)
    except OSError as error:
        raise SetupError(f"cannot write {path}: {error.strerror or error}") from error


def _check(path: Path, may_replace: bool, source: Path) -> None:
    if not path.parent.is_dir():
        raise SetupError(f"cannot write {path}: there is no directory {path.parent}")
    here, there = path.resolve(), source.resolve()
    if here == there or here in there.parents or (there in here.parents and source.is_dir()):
        raise SetupError(f"the output {path} would lie over the model {source}: name another place with --output")
    if path.exists() and not may_replace:
        raise SetupError(f"{path} is there already: name another place with --output, or replace it with --force")
    if path.is_dir() and not (path / "config.json").is_file() and any(path.iterdir()):
        raise SetupError(f"{path} is a directory that holds no model: it will not be replaced; name another place")


def refuse_too_large(path: Path, num_bytes: int) -> None:
    """Raises SetupError when the disk lacks the room."""
    free = shutil.disk_usage(path.parent).free
    if num_bytes > free:
        raise SetupError(f"{path.name} takes {num_bytes / 1e9:.1f} GB, and {free / 1e9:.1f} GB of the disk are free")
