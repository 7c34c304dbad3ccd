"""Who a server's processes are, as the system tells it."""

import os
import signal
from collections.abc import Callable

import pytest

from tailrace.serving.children import fork
from tailrace.serving.family import find_family, let_family_look


def waiting(tell: int) -> Callable[[], None]:
    """What a child does that has come so far as to run anything."""

    def wait() -> None:
        os.write(tell, b".")
        signal.pause()

    return wait


def test_children_are_found_by_the_names_they_give_themselves() -> None:
    told, tells = os.pipe()
    children = [fork(f"tailrace: {name}", waiting(tells)) for name in ("engine", "api 0")]
    children.append(fork("another", waiting(tells)))
    for _ in children:
        os.read(told, 1)
    try:
        family = find_family(os.getpid())
    finally:
        for child in children:
            child.send(signal.SIGKILL)
            os.waitpid(child.pid, 0)
            child.last_words()
        os.close(told)
        os.close(tells)
    assert family == {"engine": children[0].pid, "api 0": children[1].pid}
    assert find_family(os.getpid()) == {}


def test_where_nothing_is_told_there_is_nobody() -> None:
    assert find_family(2**30) == {}


def test_the_system_is_asked_to_let_the_supervisors_children_look(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    class System:
        def prctl(self, option: int, argument: "object") -> int:
            asked.append((option, getattr(argument, "value", -1)))
            return 0

    monkeypatch.setattr("ctypes.CDLL", lambda name: System())
    let_family_look(4711)
    assert asked == [(int.from_bytes(b"Yama", "big"), 4711)]
