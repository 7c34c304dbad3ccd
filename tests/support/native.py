"""Native test programs: how their commands are run."""

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["run"]

# cmake and ninja came with the packages of the tests.
_TOOLS = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def run(*command: str | Path) -> list[str]:
    """The lines that a command says; a failure shows them."""
    done = subprocess.run(command, env=_TOOLS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()
