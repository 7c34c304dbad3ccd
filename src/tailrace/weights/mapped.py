"""A file mapped into memory, the one way weights reach us: nothing is copied, or read before it is looked at."""

import contextlib
import mmap
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CheckpointError
from tailrace.weights.cut_short import name_in_faults

__all__ = ["MappedFile", "Span", "by_file", "map_file"]

Span = tuple[int, int]  # begin and end in bytes

_POPULATE_READ = 22  # Linux 5.14: map all pages at once instead of one fault each; absent from the mmap module


@dataclass(frozen=True, slots=True)
class _Version:
    """Which file, and when it was last written to."""

    file: tuple[int, int]
    written: tuple[int, int]

    @classmethod
    def of(cls, status: os.stat_result) -> Self:
        return cls((status.st_dev, status.st_ino), (status.st_size, status.st_mtime_ns))


@dataclass(frozen=True, slots=True)
class MappedFile:
    """The bytes of a file, read-only. The mapping lives as long as any array that views it."""

    path: Path
    mapping: mmap.mmap
    version: _Version

    @property
    def size(self) -> int:
        return len(self.mapping)

    def array(self, dtype: np.dtype[np.generic] | type[np.generic], count: int, offset: int) -> NDArray[np.generic]:
        """`count` values from byte `offset` on; the caller has checked that they lie inside the file."""
        return np.frombuffer(self.mapping, dtype=dtype, count=count, offset=offset)

    def check_unchanged(self) -> None:
        """Raises CheckpointError when somebody wrote to the file since it was mapped.

        Another file in its place does no harm: the mapping is that of the old one.
        """
        with contextlib.suppress(OSError):
            now = _Version.of(self.path.stat())
            if now.file == self.version.file and now.written != self.version.written:
                raise CheckpointError(f"{self.path}: was written to while it was read: load it when it is complete")

    def populate(self) -> None:
        """Map every page now, where the system can: a speed-up for a reader of the whole file, never needed."""
        with contextlib.suppress(OSError, ValueError):
            self.mapping.madvise(_POPULATE_READ)

    @contextlib.contextmanager
    def looked_at_here_and_there(self) -> Iterator[None]:
        """Meanwhile the system reads the pages that are looked at, and none around them."""
        self.mapping.madvise(mmap.MADV_RANDOM)
        try:
            yield
        finally:
            self.mapping.madvise(mmap.MADV_NORMAL)

    def read_ahead(self, span: Span) -> None:
        """Have the system begin to read what will be looked at soon. A wish, which nobody waits for."""
        begin, end = span[0] // mmap.PAGESIZE * mmap.PAGESIZE, min(span[1], self.size)
        if begin < end:
            with contextlib.suppress(OSError):
                self.mapping.madvise(mmap.MADV_WILLNEED, begin, end - begin)

    def release(self, span: Span | None = None) -> None:
        """Take pages out of this process's memory, all or those wholly inside `span`; a later look reads the file."""
        begin, end = span or (0, -(-self.size // mmap.PAGESIZE) * mmap.PAGESIZE)
        first, last = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
        if first < last:
            self.mapping.madvise(mmap.MADV_DONTNEED, first, last - first)


def map_file(path: Path) -> MappedFile:
    """Map `path`. Raises CheckpointError when it is missing, unreadable, empty or not a plain file."""
    try:
        if not path.is_file():
            raise CheckpointError(f"{path}: {'not a file' if path.exists() else 'no such file'}")
        with path.open("rb") as file:
            mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            name_in_faults(mapping, str(path))
            return MappedFile(path, mapping, _Version.of(os.fstat(file.fileno())))
    except ValueError:
        raise CheckpointError(f"{path}: the file is empty; fetch it again") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from error


def by_file(places: Iterable[tuple[MappedFile, Span]]) -> list[tuple[MappedFile, list[Span]]]:
    """The files of a model, by name, each with what lies in it."""
    found: dict[Path, tuple[MappedFile, list[Span]]] = {}
    for file, span in places:
        found.setdefault(file.path, (file, []))[1].append(span)
    return [found[path] for path in sorted(found)]
