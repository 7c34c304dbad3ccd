"""Processes that are killed in the middle of what they do, at a line that a test chooses or wherever they are."""

import os
import signal
import sys
import warnings
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.context import ForkProcess
from types import FrameType
from typing import Any

__all__ = ["dies_at_line", "forked", "kill_after"]


def forked(operation: Callable[..., None], *arguments: object) -> ForkProcess:
    """Start it in a process that needs no start-up. It must not need a thread of this one, as the warning would say."""
    process = get_context("fork").Process(target=operation, args=arguments)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*fork", category=DeprecationWarning)
        process.start()
    return process


def dies_at_line(operation: Callable[[], None], line: int, package: str) -> bool:
    """Run `operation` in a process that is killed as it begins its `line`-th line of `package`; False: it had fewer."""
    process = forked(_traced, operation, line, package)
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    return process.exitcode != 0


def _traced(operation: Callable[[], None], line: int, package: str) -> None:
    left = line

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if package not in frame.f_code.co_filename:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
    operation()
    sys.settrace(None)


def kill_after(operation: Callable[[Callable[[], None]], None], num_ticks: int) -> None:
    """Run `operation` in a process, and kill it some time after it has called what it was given so many times."""
    reader, writer = os.pipe()
    process = forked(operation, lambda: os.write(writer, b"."))
    for _ in range(num_ticks):
        os.read(reader, 1)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    os.close(reader)
    os.close(writer)
