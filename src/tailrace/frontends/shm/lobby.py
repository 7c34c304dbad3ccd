"""Where a server and its clients find each other: files of one user, of which nothing outlives who made it for long.

Knows names, owners and locks; not what is in a segment (layout.py). Nothing is opened through a link, or if it is
somebody else's.
"""

import fcntl
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Self

from tailrace.errors import SetupError
from tailrace.frontends.shm.layout import LAYOUT_VERSION

__all__ = [
    "DOOR_RECORD_BYTES",
    "SHARED_MEMORY",
    "Knock",
    "Lobby",
    "Verdict",
    "check_name",
    "claimed",
    "open_directory",
    "open_own",
]

SHARED_MEMORY = Path("/dev/shm")
DOOR_RECORD_BYTES = 64  # less than a pipe takes in one piece, whoever else writes

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_RECORD = re.compile(rb"(\d{1,9}) ([0-9a-f]{32}) *\n")
_TOKEN_BYTES = 16
_TRIES, _PAUSE_S = 8, 0.01  # to lock a lobby that others look at, or remove


def check_name(name: str) -> str:
    """Raises SetupError unless a server may be called so."""
    if not _NAME.fullmatch(name):
        raise SetupError(
            f"{name[:80]!r} cannot be the name of a server in shared memory: "
            "take 1 to 64 letters, digits, dashes and underscores"
        )
    return name


def open_directory(parent: Path = SHARED_MEMORY) -> int:
    """A descriptor of this user's directory, which is made if it is not there. Raises SetupError."""
    path = parent / f"tailrace-{os.geteuid()}"
    try:
        with suppress(FileExistsError):
            path.mkdir(0o700)
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise SetupError(f"cannot use {path} to meet in shared memory: {error.strerror}") from None
    status = os.fstat(fd)
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        os.close(fd)
        raise SetupError(f"{path} belongs to somebody else, or is open to others: remove it, or 'chmod 700' it")
    return fd


def open_own(directory: int, name: str, flags: int) -> int:
    """A descriptor of a file of this user in a directory. Raises OSError, PermissionError for somebody else's."""
    fd = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600, dir_fd=directory)
    status = os.fstat(fd)
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        os.close(fd)
        raise PermissionError(f"{name} belongs to somebody else, or is open to others")
    return fd


class Knock(NamedTuple):
    """What a record at the door says: a client of this version of the layout wants in with the files of its token."""

    version: int
    token: str

    def encode(self) -> bytes:
        return f"{self.version} {self.token}".ljust(DOOR_RECORD_BYTES - 1).encode() + b"\n"

    @classmethod
    def decode(cls, record: bytes) -> Self | None:
        """None for what no client writes."""
        match = _RECORD.fullmatch(record) if len(record) == DOOR_RECORD_BYTES else None
        return None if match is None else cls(int(match[1]), match[2].decode())

    @classmethod
    def of_version(cls, version: int) -> Self:
        return cls(version, secrets.token_hex(_TOKEN_BYTES))


class Verdict:
    """The first byte in a client's pipe."""

    WELCOME = b"+"
    FULL = b"f"
    REFUSED = b"-"


class Lobby:
    """A server's claim on a name, made once and before it forks: whoever has inherited it may answer the door.

    The name is free when all of them have ended, however they did.
    """

    def __init__(self, name: str, directory: int, lock: int, door: int) -> None:
        self.name = name
        self.directory = directory
        self.door = door  # of which knocks are read, DOOR_RECORD_BYTES each; never blocks
        self._lock = lock

    @classmethod
    def claim(cls, name: str, parent: Path = SHARED_MEMORY) -> Self:
        """Raises SetupError for a name that cannot be, or that another server has."""
        check_name(name)
        with ExitStack() as undo:
            directory = open_directory(parent)
            undo.callback(os.close, directory)
            _remove_stale(directory)
            lock = _locked(directory, name)
            undo.callback(os.close, lock)
            os.write(lock, b"%d\n" % LAYOUT_VERSION)
            door = _new_door(directory, f"{name}.door")
            undo.pop_all()
        return cls(name, directory, lock, door)

    def close(self) -> None:
        """Give up the name. Harmless when it is given up already."""
        if self._lock >= 0:
            _remove_all(self.directory, self.name)
            for fd in (self.door, self.directory, self._lock):
                os.close(fd)
            self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def claimed(name: str | None) -> Iterator[Lobby | None]:
    """A server's lobby for as long as there is the server; None for None. Raises SetupError, as `Lobby.claim`."""
    if name is None:
        yield None
        return
    with Lobby.claim(name) as lobby:
        yield lobby


def _locked(directory: int, name: str) -> int:
    """A descriptor of the name's lobby, locked."""
    for _ in range(_TRIES):
        try:
            fd = open_own(directory, f"{name}.lobby", os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise SetupError(f"cannot claim the name {name!r} in shared memory: {error}") from None
        if _has_locked(fd) and _is_at(directory, f"{name}.lobby", fd):
            os.ftruncate(fd, 0)
            return fd
        os.close(fd)
        time.sleep(_PAUSE_S)
    raise SetupError(f"another server is called {name!r} in shared memory: stop it, or choose another name with --shm")


def _has_locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(directory: int, name: str, fd: int) -> bool:
    """Whether it still has its name: who sweeps may have removed it before it was locked."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(fd), os.stat(name, dir_fd=directory, follow_symlinks=False))
    return False


def _new_door(directory: int, name: str) -> int:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
    os.mkfifo(name, 0o600, dir_fd=directory)
    # For reading and writing: a pipe without a writer would be at its end, which wakes its reader for ever.
    return open_own(directory, name, os.O_RDWR)


def _remove_stale(directory: int) -> None:
    """What servers have left that were killed."""
    for name in [each.removesuffix(".lobby") for each in os.listdir(directory) if each.endswith(".lobby")]:
        with suppress(OSError), _opened(directory, f"{name}.lobby") as fd:
            if _has_locked(fd) and _is_at(directory, f"{name}.lobby", fd):
                _remove_all(directory, name)


def _remove_all(directory: int, name: str) -> None:
    """All files of a server, and what its clients wanted in with; the one that is locked last."""
    names = [each for each in os.listdir(directory) if each.startswith(f"{name}.") and not each.endswith(".lobby")]
    for each in (*names, f"{name}.lobby"):
        with suppress(FileNotFoundError):
            os.unlink(each, dir_fd=directory)


@contextmanager
def _opened(directory: int, name: str) -> Iterator[int]:
    fd = open_own(directory, name, os.O_RDWR)
    try:
        yield fd
    finally:
        os.close(fd)
