"""How a client gets in: it makes its segment and its pipes, knocks at a server's door, and waits to be let in."""

import errno
import os
import select
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from tailrace.client.link import Link
from tailrace.errors import Overloaded, SetupError, UnavailableError
from tailrace.frontends.shm.layout import LAYOUT_VERSION, SEGMENT_BYTES, Segment, make_segment
from tailrace.frontends.shm.lobby import SHARED_MEMORY, Knock, Verdict, check_name, open_directory, open_own

__all__ = ["join"]

_PATIENCE_S = 5.0
_AGAIN_S = 0.25  # a knock may be lost
_RETRY_S = 1.0


def join(name: str, parent: Path = SHARED_MEMORY) -> Link:
    """Raises UnavailableError when no server answers, Overloaded when it has too many clients, SetupError."""
    check_name(name)
    with ExitStack() as closing:
        directory = open_directory(parent)
        closing.callback(os.close, directory)
        _check_version(directory, name)
        knock = Knock.of_version(LAYOUT_VERSION)
        files = _Files(directory, f"{name}.{knock.token}")
        closing.callback(files.remove)
        with ExitStack() as undo:
            segment = files.make_segment()
            down = files.make_pipe("down")
            undo.callback(os.close, down)
            # Whoever only writes into a pipe learns at once that nobody reads it any more; to begin so, somebody must.
            reader = files.make_pipe("up")
            closing.callback(os.close, reader)
            up = open_own(directory, f"{name}.{knock.token}.up", os.O_WRONLY)
            undo.callback(os.close, up)
            _knock(directory, name, knock, down)
            undo.pop_all()
    return Link(segment, up, down)


def _check_version(directory: int, name: str) -> None:
    try:
        lobby = open_own(directory, f"{name}.lobby", os.O_RDONLY)
    except FileNotFoundError:
        raise UnavailableError(_nobody(name)) from None
    except OSError as error:
        raise SetupError(f"cannot reach the server {name!r} in shared memory: {error}") from None
    with os.fdopen(lobby, "rb") as file:
        version = file.read(32).strip()
    if version and version != b"%d" % LAYOUT_VERSION:
        raise SetupError(
            f"the server {name!r} shares memory by version {version.decode(errors='replace')}, this client by "
            f"{LAYOUT_VERSION}: install the same tailrace for both"
        )


class _Files:
    """What a client wants in with, until the server has opened it."""

    def __init__(self, directory: int, prefix: str) -> None:
        self._directory = directory
        self._prefix = prefix

    def make_segment(self) -> Segment:
        fd = open_own(self._directory, f"{self._prefix}.segment", os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            return make_segment(fd)
        except OSError as error:
            raise SetupError(
                f"there is no room for {SEGMENT_BYTES:,} bytes in shared memory: {error.strerror}"
            ) from None
        finally:
            os.close(fd)

    def make_pipe(self, suffix: str) -> int:
        """The end that reads."""
        os.mkfifo(f"{self._prefix}.{suffix}", 0o600, dir_fd=self._directory)
        return open_own(self._directory, f"{self._prefix}.{suffix}", os.O_RDONLY)

    def remove(self) -> None:
        for suffix in ("segment", "up", "down"):
            with suppress(FileNotFoundError):
                os.unlink(f"{self._prefix}.{suffix}", dir_fd=self._directory)


def _knock(directory: int, name: str, knock: Knock, down: int) -> None:
    """Returns when the server has let the client in."""
    try:
        door = open_own(directory, f"{name}.door", os.O_WRONLY)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENXIO):  # nobody has it open
            raise SetupError(f"cannot reach the server {name!r} in shared memory: {error}") from None
        raise UnavailableError(_nobody(name)) from None
    try:
        ends_s = time.monotonic() + _PATIENCE_S
        while (verdict := _answered(door, knock, down)) is None:
            if time.monotonic() > ends_s:
                raise UnavailableError(
                    f"the server {name!r} does not answer in shared memory; try again", retry_after_s=_RETRY_S
                )
    except BrokenPipeError:
        raise UnavailableError(_nobody(name)) from None
    finally:
        os.close(door)
    if verdict == Verdict.FULL:
        raise Overloaded(f"the server {name!r} has as many clients as it takes", retry_after_s=_RETRY_S)
    if verdict != Verdict.WELCOME:
        raise SetupError(f"the server {name!r} does not take this client: install the same tailrace for both")


def _answered(door: int, knock: Knock, down: int) -> bytes | None:
    with suppress(BlockingIOError):
        os.write(door, knock.encode())
    poll = select.poll()
    poll.register(down, select.POLLIN)
    if poll.poll(_AGAIN_S * 1e3):
        with suppress(BlockingIOError):
            return os.read(down, 1) or None
    return None


def _nobody(name: str) -> str:
    return f"no server is called {name!r} in shared memory: start one with 'tailrace serve --shm {name}'"
