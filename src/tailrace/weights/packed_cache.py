"""Packed weights on disk, so that a second start maps them and goes.

A file is named by what decides its bytes and holds just these, then a trailer: a magic number and a hash of samples, by
which a torn or damaged one is known. It is written under another name and renamed when it is whole. The least recently
used go when all together would take more than they may.
"""

import contextlib
import fcntl
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import xxhash
from numpy.typing import NDArray

from tailrace.weights.default_model import cache_dir

__all__ = ["PackedCache"]

logger = logging.getLogger(__name__)

_MAGIC = b"tailrace packed\n"
_SAMPLE_BYTES = 4096
_SAMPLE_EVERY = 4 << 20
_WRITE_BYTES = 16 << 20
_SPARE_BYTES = 1 << 30  # of the disk, that are left alone
_SUFFIX, _PARTIAL = ".weights", ".partial"


@dataclass(frozen=True, slots=True)
class PackedCache:
    """Files in `directory`, which take `max_bytes` together at most."""

    directory: Path
    max_bytes: int

    @classmethod
    def of_user(cls, max_bytes: int = 64 << 30) -> Self:
        """In the user's cache directory."""
        return cls(cache_dir() / "packed", max_bytes)

    def find(self, key: str, num_bytes: int) -> int | None:
        """A file descriptor, open for reading, of so many packed bytes; None when they are not there, or damaged."""
        path = self._path(key)
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        if _is_whole(file, num_bytes):
            with contextlib.suppress(OSError):
                os.utime(path)
            os.posix_fadvise(file, 0, num_bytes, os.POSIX_FADV_WILLNEED)
            return file
        os.close(file)
        logger.warning("%s is damaged: it is removed, and the weights are packed anew", path)
        path.unlink(missing_ok=True)
        return None

    def save(self, key: str, packed: NDArray[np.uint8]) -> None:
        """Keep these bytes. What keeps that from happening is logged: a server runs without it too."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if (reason := self._lack_of_room(packed.nbytes, key)) is not None:
                logger.warning("packed weights are not kept in %s: %s", self.directory, reason)
                return
            with self._partial(key) as (file, path):
                _write(file, packed)
                path.rename(self._path(key))
        except OSError as error:
            logger.warning("packed weights cannot be kept in %s: %s", self.directory, error.strerror or error)

    def _path(self, key: str) -> Path:
        return self.directory / f"{key}{_SUFFIX}"

    def _lack_of_room(self, num_bytes: int, key: str) -> str | None:
        """Why so many bytes cannot be kept, once what is needed least is gone; None: they can."""
        self._drop_partials()
        if num_bytes > self.max_bytes:
            return f"they take {num_bytes:,} bytes, all together may take {self.max_bytes:,}"
        for path, size, total in self._oldest_first():
            if total + num_bytes <= self.max_bytes:
                break
            if path != self._path(key):
                logger.info("%s (%s bytes) is removed: packed weights may take %s", path, size, self.max_bytes)
                path.unlink(missing_ok=True)
        free_bytes = shutil.disk_usage(self.directory).free
        return None if free_bytes >= num_bytes + _SPARE_BYTES else f"the disk has {free_bytes:,} bytes free"

    def _oldest_first(self) -> Iterator[tuple[Path, int, int]]:
        """Files with their sizes, and what those from here on take together."""
        found = sorted((path.stat().st_mtime, path, path.stat().st_size) for path in self.directory.glob(f"*{_SUFFIX}"))
        total = sum(size for _, _, size in found)
        for _, path, size in found:
            yield path, size, total
            total -= size

    @contextmanager
    def _partial(self, key: str) -> Iterator[tuple[int, Path]]:
        """A new file that is locked while it is written, and removed when it does not become whole."""
        path = self.directory / f"{key}.{os.getpid()}{_PARTIAL}"
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file, path
        finally:
            os.close(file)
            path.unlink(missing_ok=True)

    def _drop_partials(self) -> None:
        """Those that nobody writes any more."""
        for path in self.directory.glob(f"*{_PARTIAL}"):
            with contextlib.suppress(OSError), path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)


def _write(file: int, packed: NDArray[np.uint8]) -> None:
    os.posix_fallocate(file, 0, packed.nbytes + len(_trailer(b"")))
    view = packed.data
    for begin in range(0, len(view), _WRITE_BYTES):
        piece = view[begin : begin + _WRITE_BYTES]
        while piece:
            piece = piece[os.write(file, piece) :]
    os.fsync(file)  # before the trailer: what has one is whole, whatever happens to the machine
    os.write(file, _trailer(_samples(file, packed.nbytes)))
    os.fsync(file)


def _is_whole(file: int, num_bytes: int) -> bool:
    try:
        if os.fstat(file).st_size != num_bytes + len(_trailer(b"")):
            return False
        return os.pread(file, len(_trailer(b"")), num_bytes) == _trailer(_samples(file, num_bytes))
    except OSError:
        return False


def _samples(file: int, num_bytes: int) -> bytes:
    digest = xxhash.xxh3_128()
    for begin in range(0, num_bytes, _SAMPLE_EVERY):
        digest.update(os.pread(file, min(_SAMPLE_BYTES, num_bytes - begin), begin))
    return digest.digest()


def _trailer(digest: bytes) -> bytes:
    return _MAGIC + digest.ljust(16, b"\0")
