"""Files of operators that are read again while the server runs: when they change, and at SIGHUP."""

import asyncio
import contextlib
import logging
import signal
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from tailrace.errors import SetupError

__all__ = ["WatchedFile", "watching"]

Content = TypeVar("Content")

_log = logging.getLogger(__name__)

_POLL_S = 1.0


class WatchedFile(Generic[Content]):
    """Hands over what a file says whenever that is new. A file that cannot be read or is wrong changes nothing.

    What is watched is the path: a file that is renamed onto it, or a link that points elsewhere, is a change.
    """

    def __init__(self, path: Path, read: Callable[[Path], Content], take: Callable[[Content], None]) -> None:
        """`read` may raise SetupError."""
        self._path = path
        self._read = read
        self._take = take
        self._seen: tuple[int, ...] | None = None

    @property
    def has_changed(self) -> bool:
        return _version(self._path) != self._seen

    async def reread(self) -> None:
        """Read and hand over, off the event loop: a file may be large. What is wrong with it, and with which, is said
        once in the log.

        The version is noted before reading: what is written meanwhile is a change again.
        """
        self._seen = _version(self._path)
        try:
            content = await asyncio.to_thread(self._read, self._path)
        except SetupError as error:
            _log.error("what was read before still holds: %s", error)
            return
        self._take(content)


def _version(path: Path) -> tuple[int, ...] | None:
    """What tells one content from another without reading it; None while there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@contextlib.asynccontextmanager
async def watching(files: Sequence[WatchedFile[Content]], poll_s: float = _POLL_S) -> AsyncIterator[None]:
    """Reads them at once, since a process may begin long after its parent read them, and again as they change. SIGHUP
    reads all, changed or not. Without files nothing is done.

    Signals are taken in the main thread alone, the only one that has them.
    """
    if not files:
        yield
        return
    for file in files:
        await file.reread()
    hang_up = asyncio.Event()
    watcher = asyncio.create_task(_watch(files, hang_up, poll_s))
    has_signals = threading.current_thread() is threading.main_thread()
    loop = asyncio.get_running_loop()
    if has_signals:
        loop.add_signal_handler(signal.SIGHUP, hang_up.set)
    try:
        yield
    finally:
        if has_signals:
            loop.remove_signal_handler(signal.SIGHUP)
        watcher.cancel()
        await asyncio.wait([watcher])


async def _watch(files: Sequence[WatchedFile[Content]], hang_up: asyncio.Event, poll_s: float) -> None:
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(poll_s):
                await hang_up.wait()
        wants_all = hang_up.is_set()
        hang_up.clear()
        for file in files:
            if wants_all or file.has_changed:
                await file.reread()
