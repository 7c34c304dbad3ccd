"""The pages of docs/: every block of code runs as it stands, in order, as a reader would run it.

A block that begins with `tailrace serve` is a server for the blocks after it; only its address is another here.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.server.process import serving

DOCS = Path(__file__).parents[2] / "docs"
ADDRESS = "http://127.0.0.1:8000"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Reader:
    """Runs blocks in a directory of its own."""

    def __init__(self, directory: Path, servers: ExitStack) -> None:
        self._directory = directory
        self._servers = servers
        self._url = ADDRESS
        self._names: dict[str, Any] = {}
        binaries = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self._environment = {**os.environ, "PATH": binaries, "PYTHONPATH": os.pathsep.join(sys.path)}

    def run(self, kind: str, code: str) -> None:
        if code.startswith("tailrace serve"):
            self._servers.close()
            self._url = self._servers.enter_context(serving(*shlex.split(code)[2:])).url
        elif kind == "sh":
            self._run_shell(code.replace(ADDRESS, self._url))
        else:
            exec(compile(code.replace(ADDRESS, self._url), "page", "exec"), self._names)

    def _run_shell(self, code: str) -> None:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", code],
            cwd=self._directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with ExitStack() as servers:
        yield Reader(tmp_path, servers)


@pytest.mark.parametrize("page", ["terminal.md", "python.md"])
def test_all_that_a_page_shows_runs(page: str, reader: Reader) -> None:
    blocks = BLOCK.findall((DOCS / page).read_text())
    assert len(blocks) > 5
    for kind, code in blocks:
        assert kind in ("sh", "python")
        reader.run(kind, code)
