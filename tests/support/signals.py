"""Signals as a process in the foreground has them."""

import signal

__all__ = ["hear_ctrl_c"]


def hear_ctrl_c() -> None:
    """For a child before it becomes a program: where the tests run in the background, children are born deaf to it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
