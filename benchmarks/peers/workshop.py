"""Where peers are built: each in a folder of its own, outside the package, kept until its recipe changes."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.engine import EngineUnavailable
from benchmarks.peers.progress import working

__all__ = ["Venv", "Workshop", "output_of", "run"]

_STAMP = ".recipe"
_SHOWN_LINES = 12


@dataclass(frozen=True, slots=True)
class Workshop:
    """Folders under `root`, made by recipes; what was half made, moved, or made by another recipe is made anew."""

    root: Path

    def folder(self, name: str, recipe: str, make: Callable[[Path], None]) -> Path:
        """The folder `name`, made first unless this recipe has made it here. Raises EngineUnavailable."""
        folder = self.root / name
        stamp, made = folder / _STAMP, f"{folder}\n{recipe}\n"
        if stamp.is_file() and stamp.read_text() == made:
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        make(folder)
        stamp.write_text(made)
        return folder

    def scratch(self, name: str) -> Path:
        """A folder without a recipe, for what runs leave."""
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def venv(self, name: str, *requirements: str, without: Sequence[str] = ()) -> "Venv":
        """A venv with these packages, less those in `without`. Raises EngineUnavailable."""

        def make(folder: Path) -> None:
            venv = Venv(folder)
            run(f"{name}: making a venv", [sys.executable, "-m", "venv", str(folder)], folder)
            run(f"{name}: installing {', '.join(requirements)}", venv.pip("install", *requirements), folder)
            if without:
                run(f"{name}: removing {', '.join(without)}", venv.pip("uninstall", "--yes", *without), folder)

        recipe = " ".join([*requirements, *(f"-{package}" for package in without)])
        return Venv(self.folder(name, recipe, make))


@dataclass(frozen=True, slots=True)
class Venv:
    folder: Path

    def program(self, name: str) -> str:
        return str(self.folder / "bin" / name)

    def pip(self, verb: str, *arguments: str) -> list[str]:
        return [self.program("python"), "-m", "pip", "--disable-pip-version-check", "--no-input", verb, *arguments]

    def versions(self, *packages: str) -> str:
        """`name version` of each package. Raises EngineUnavailable."""
        code = "import importlib.metadata as m, sys; print(', '.join(f'{p} {m.version(p)}' for p in sys.argv[1:]))"
        return output_of([self.program("python"), "-c", code, *packages])


def run(what: str, command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> None:
    """Run one step of a recipe; its output goes to `build.log` in the folder. Raises EngineUnavailable."""
    log = folder / "build.log"
    with working(what), log.open("ab") as output:
        done = _run(what, command, output.fileno(), environment)
    if done:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:])
        raise EngineUnavailable(f"{what} failed ({done}); {log} ends with:\n{tail}")


def _run(what: str, command: Sequence[str], output: int, environment: Mapping[str, str] | None) -> int:
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **(environment or {})},
            check=False,
        ).returncode
    except OSError as error:
        raise EngineUnavailable(f"{what}: {command[0]} does not start: {error.strerror}") from error


def output_of(command: Sequence[str]) -> str:
    """What a short command prints, in one line. Raises EngineUnavailable."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise EngineUnavailable(f"{command[0]} cannot be asked for its version: {error}") from error
    return " ".join((done.stdout + done.stderr).split())
