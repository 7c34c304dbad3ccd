"""Profiles of processes that run. py-spy looks at them from outside, so that they need to do nothing for it.

Whoever is looked at stands still while its stack is read; py-spy is never given a lower priority, since then it would
stand still for longer.
"""

import asyncio
import fcntl
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tailrace.errors import SetupError

__all__ = ["ALL", "ProfileFormat", "ProfileOrder", "ProfileTurn", "Profiler", "TurnTaken"]

ProfileFormat = Literal["svg", "speedscope", "collapsed"]
"""svg: a flame graph to look at; speedscope: JSON for its viewer; collapsed: a stack and its count a line."""

ALL = "all"  # what the processes of a server are called together

_FORMATS: Mapping[ProfileFormat, str] = {"svg": "flamegraph", "speedscope": "speedscope", "collapsed": "raw"}
_SAMPLES_PER_S = 100
_OVERTIME_S = 30.0  # to find its way about a process, and to write
_PATIENCE_S = 2.0  # with one that was told to end
_LONGEST_WORDS = 2000


@dataclass(frozen=True, slots=True)
class ProfileOrder:
    """`has_native` shows functions in C and C++, too; without them, nobody is held up."""

    process: str  # by its name, or ALL
    seconds: int
    format: ProfileFormat
    has_native: bool


class TurnTaken(Exception):
    """Somebody is being profiled already."""


class ProfileTurn:
    """Whose turn it is, among all processes that were forked after it was made. That of a dead one is over."""

    def __init__(self) -> None:
        self._file = os.memfd_create("tailrace-profile")
        self._is_ours = False

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Raises TurnTaken."""
        if self._is_ours:  # the system knows processes, not tasks
            raise TurnTaken
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise TurnTaken from None
        self._is_ours = True
        try:
            yield
        finally:
            self._is_ours = False
            fcntl.lockf(self._file, fcntl.LOCK_UN)


class Profiler:
    """Looks at the processes that `find` names, one at a time; ALL are the one that it calls so with its children."""

    def __init__(self, find: Callable[[], Mapping[str, int]], turn: ProfileTurn) -> None:
        self._find = find
        self._turn = turn
        self._recording: asyncio.Task[None] | None = None
        self._is_closed = False

    def names(self) -> list[str]:
        """Of the processes that there are now."""
        return list(self._find())

    async def take(self, order: ProfileOrder) -> bytes:
        """Cancelled, it ends at once. Raises SetupError when the machine does not let us; TurnTaken."""
        program = _program()
        pid = self._find()[order.process]
        with self._turn.taken(), tempfile.TemporaryDirectory(prefix="tailrace-profile-") as folder:
            path = Path(folder) / "profile"
            await self._unless_closed(_record(program, _options(order, pid, path), pid, order.seconds + _OVERTIME_S))
            return await asyncio.to_thread(path.read_bytes)

    def close(self) -> None:
        """The server ends, and waits for no profile."""
        self._is_closed = True
        if self._recording is not None:
            self._recording.cancel()

    async def _unless_closed(self, recording: Coroutine[None, None, None]) -> None:
        task = self._recording = asyncio.create_task(recording)
        try:
            if self._is_closed:
                task.cancel()
            await asyncio.wait([task])
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._recording = None
        if task.cancelled():
            raise SetupError("the server ends: there is no profile any more")
        task.result()


def _program() -> str:
    """It comes beside our own interpreter, or else with the system."""
    beside = Path(sys.executable).parent / "py-spy"
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        raise SetupError("profiles need py-spy: pip install 'tailrace[profile]' on the server")
    return found


def _options(order: ProfileOrder, pid: int, path: Path) -> list[str]:
    kind = ("--native",) if order.has_native else ("--nonblocking",)  # it reads native stacks of who stands still only
    whom = ("--subprocesses",) if order.process == ALL else ()
    numbers = ("--duration", str(order.seconds), "--rate", str(_SAMPLES_PER_S), "--pid", str(pid))
    return ["record", *kind, *whom, *numbers, "--format", _FORMATS[order.format], "--output", str(path)]


async def _record(program: str, options: list[str], pid: int, at_most_s: float) -> None:
    process = await asyncio.create_subprocess_exec(
        program,
        *options,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(at_most_s):
            words, _ = await process.communicate()
    except TimeoutError:
        raise SetupError(f"py-spy did not come to an end in {at_most_s:.0f} s") from None
    finally:
        if process.returncode is None:
            await _end(process, pid)
    if process.returncode != 0:
        raise SetupError(_explained(words[-_LONGEST_WORDS:].decode(errors="replace")))


async def _end(process: asyncio.subprocess.Process, pid: int) -> None:
    """Have it let go of whom it looks at; one that does not is killed, and whom it held goes on."""
    process.send_signal(signal.SIGINT)
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE_S):
            await process.communicate()
            return
    process.kill()
    await process.wait()
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def _explained(words: str) -> str:
    said = " ".join(words.partition("Stack backtrace")[0].split())
    if "No stack counts" in said:
        return "the process did nothing meanwhile: there is no picture of it; ask again while it works, or for longer"
    if "ermission" in said or "EPERM" in said or "not permitted" in said:
        return (
            "the system does not let py-spy look at the server's processes: give the server's container the capability "
            f"SYS_PTRACE, or set kernel.yama.ptrace_scope to 0 or 1 ({said})"
        )
    return f"py-spy could not look at the process: {said}"
