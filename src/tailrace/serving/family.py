"""The processes of one server, as the system knows them, and who may look into them."""

import ctypes
from collections.abc import Iterator
from pathlib import Path

__all__ = ["find_family", "let_family_look"]

_PREFIX = "tailrace: "
_PR_SET_PTRACER = 0x59616D61


def find_family(supervisor: int) -> dict[str, int]:
    """The pids of a supervisor's children, by the names that they give themselves: engine, api 0."""
    return {title.removeprefix(_PREFIX): pid for title, pid in _children(supervisor) if title.startswith(_PREFIX)}


def _children(parent: int) -> Iterator[tuple[str, int]]:
    """Their titles and pids; none where the system does not tell."""
    try:
        pids = Path(f"/proc/{parent}/task/{parent}/children").read_text("ascii").split()
    except OSError:
        return
    for pid in pids:
        try:
            title = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
        except OSError:
            continue  # it is over
        yield title.decode(errors="replace"), int(pid)


def let_family_look(supervisor: int) -> None:
    """Where the system lets nobody but ancestors look into a process (Yama), the supervisor's children may, too.

    A profiler is started by an API process, which is nobody's ancestor. On other systems this does nothing.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(supervisor))
