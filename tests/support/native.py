"""Native test programs: how they are compiled and run."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

__all__ = ["built_programs", "package_build", "run", "undisturbed"]

_BUILD = Path(__file__).parents[2] / "build"

# cmake and ninja came with the packages of the tests.
_TOOLS = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def run(*command: str | Path) -> list[str]:
    """The lines that a command says; a failure shows them."""
    done = subprocess.run(command, env=_TOOLS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()


@cache
def built_programs(source: Path) -> Path:
    """The folder of the programs that a folder of tests describes, all of them compiled."""
    folder = _BUILD / source.name
    with undisturbed(folder):
        run("cmake", "-S", source, "-B", folder, "-G", "Ninja")
        run("cmake", "--build", folder)
    return folder


@contextmanager
def undisturbed(folder: Path) -> Iterator[None]:
    """No other process of the tests builds in the folder meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed
        yield


def package_build() -> Path | None:
    """Where the installed package's own native modules were compiled, if that was in this checkout."""
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return next((cache.parent for cache in _BUILD.glob(f"{tag}-*/CMakeCache.txt")), None)
