"""Processes that are forked from the supervisor: each has a name, ends with it, and can say why it could not start."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from setproctitle import getproctitle, setproctitle

from tailrace.errors import EngineError, ModelError, SetupError, TailraceError
from tailrace.serving.family import let_family_look
from tailrace.weights.cut_short import say_it_to_parent

__all__ = ["CRASHED", "Child", "fork", "process_name"]

_TITLE = "tailrace: "

CRASHED = 70  # exit code of a process that ended by a fault of our own
_PR_SET_PDEATHSIG = 1
_SETTLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1)  # as the system has them
_LONGEST_WORDS = 4096
_KINDS: dict[str, type[TailraceError]] = {each.__name__: each for each in (SetupError, ModelError, EngineError)}


@dataclass(frozen=True, slots=True)
class Child:
    """A process that was started, as its parent knows it."""

    title: str
    pid: int
    words: int  # file descriptor, from which its last words can be read

    def send(self, number: signal.Signals) -> None:
        """The process has not been waited for, so its pid is its own."""
        os.kill(self.pid, number)

    @property
    def is_stopped(self) -> bool:
        """Whether somebody has stopped it, by SIGSTOP say; False where the system does not tell."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2].startswith(("T", "t"))
        except OSError:
            return False

    def last_words(self) -> TailraceError | None:
        """Why it could not go on, if it said so. To be asked once, when it has ended."""
        try:
            kind, _, message = os.read(self.words, _LONGEST_WORDS).decode().partition("\n")
        finally:
            os.close(self.words)
        return _KINDS.get(kind, EngineError)(message) if kind else None


def process_name() -> str:
    """What this process is in its server: supervisor, or what it was forked as."""
    title = getproctitle()
    return title.removeprefix(_TITLE) if title.startswith(_TITLE) else "supervisor"


def fork(title: str, run: Callable[[], None]) -> Child:
    """Run this in a process of its own. It is killed with its parent, and signals of the terminal pass it by.

    To be called while the parent has a single thread.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    words, own = os.pipe()
    parent = os.getpid()
    # What is sent to the child before it has settled in waits until it has.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SETTLED)
    try:
        pid = os.fork()
    except OSError:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(words)
        os.close(own)
        raise
    if pid == 0:
        os.close(words)
        _run_and_exit(title, run, parent, own)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.close(own)
    return Child(title, pid, words)


def _run_and_exit(title: str, run: Callable[[], None], parent: int, words: int) -> None:
    code = CRASHED
    try:
        _settle_in(title, parent)
        say_it_to_parent(lambda message: _leave_words(words, ModelError.__name__, message))
        run()
        code = 0
    except TailraceError as error:
        code = 1
        kind = next((name for name, each in _KINDS.items() if isinstance(error, each)), "")
        _leave_words(words, kind, str(error))
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # nothing of the parent's is ours to clean up


def _leave_words(words: int, kind: str, message: str) -> None:
    os.write(words, f"{kind}\n{message}".encode()[:_LONGEST_WORDS])


def _settle_in(title: str, parent: int) -> None:
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    let_family_look(parent)
    if os.getppid() != parent:
        os._exit(CRASHED)  # it died before it could take us with it
    signal.set_wakeup_fd(-1)
    for number in _SETTLED:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # meant for who has something to read again
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    setproctitle(title)
