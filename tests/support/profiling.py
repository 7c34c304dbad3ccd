"""What stands in for py-spy, and a process to look at."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["install_stand_in", "state_of", "turning"]

_PYTHON = sys.executable  # which the stand-in's place is made to look like
_HEAD = """\
#!{python}
import os, signal, sys, time
from pathlib import Path
options = sys.argv[1:]
output = Path(options[options.index("--output") + 1])
pid = int(options[options.index("--pid") + 1])
"""


def install_stand_in(monkeypatch: pytest.MonkeyPatch, folder: Path, body: str) -> None:
    """From now on py-spy is this: it knows `options`, its `output` and the `pid` that it is to look at."""
    program = folder / "py-spy"
    program.write_text(_HEAD.format(python=_PYTHON) + body)
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))


@contextmanager
def turning() -> Iterator[int]:
    """The pid of a process that does nothing but `turn_the_crank`."""
    code = "def turn_the_crank():\n    while True: pass\nprint(flush=True)\nturn_the_crank()"
    with subprocess.Popen([_PYTHON, "-c", code], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process.pid
        finally:
            process.kill()


def state_of(pid: int) -> str:
    """R: it runs; T, t: it was stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
