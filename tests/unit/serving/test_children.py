"""Forked processes, as they come out of pytest's: each child ends by itself."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tailrace.errors import CheckpointError, EngineError, ModelError, SetupError, TailraceError
from tailrace.serving.children import CRASHED, fork


def raising(error: BaseException) -> Callable[[], None]:
    def run() -> None:
        raise error

    return run


def test_a_child_that_is_done_has_no_last_words() -> None:
    child = fork("tailrace: test", lambda: None)
    _, status = os.waitpid(child.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert child.last_words() is None


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (SetupError("no\nroom"), SetupError),
        (CheckpointError("torn"), ModelError),
        (EngineError("oh"), EngineError),
        (SetupError("x" * 100_000), SetupError),
    ],
)
def test_it_can_say_why_it_cannot_go_on(error: TailraceError, kind: type[TailraceError]) -> None:
    child = fork("tailrace: test", raising(error))
    _, status = os.waitpid(child.pid, 0)
    words = child.last_words()
    assert os.waitstatus_to_exitcode(status) == 1
    assert type(words) is kind
    assert str(error).startswith(str(words))


def test_what_is_no_error_of_ours_is_a_crash(capfd: pytest.CaptureFixture[str]) -> None:
    child = fork("tailrace: test", raising(ZeroDivisionError("surprise")))
    _, status = os.waitpid(child.pid, 0)
    assert os.waitstatus_to_exitcode(status) == CRASHED
    assert child.last_words() is None
    assert "surprise" in capfd.readouterr().err


def test_it_has_its_title_and_dies_with_its_parent() -> None:
    """A parent forks a child that would sleep on, and is killed."""
    said, say = os.pipe()

    def sleep() -> None:
        os.write(say, f"{os.getpid()}\n".encode())
        time.sleep(60)

    def parent() -> None:
        fork("tailrace: grandchild", sleep)
        time.sleep(60)

    middle = fork("tailrace: child", parent)
    grandchild = int(os.read(said, 64))
    title = Path(f"/proc/{grandchild}/cmdline").read_bytes().split(b"\0")[0]
    os.kill(middle.pid, signal.SIGKILL)
    os.waitpid(middle.pid, 0)
    ends_s = time.monotonic() + 10
    while _is_running(grandchild):
        assert time.monotonic() < ends_s, "it lives on without its parent"
    assert title == b"tailrace: grandchild"


def _is_running(pid: int) -> bool:
    """Whether it is neither gone nor waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
