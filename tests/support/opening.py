"""Opens models and reads all of them, within bounds of memory and time: `python -m tests.support.opening PATH...`.

For each it says one line of JSON: the kind of error that it ended with, or null, what that said, how long it took.
"""

import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

__all__ = ["Opened", "open_all"]

MORE_BYTES = 1 << 30  # of memory that is no file's, than the process had at first
MAX_S = 20  # of the processor: on a busy machine a clock says nothing of the code


@dataclass(frozen=True, slots=True)
class Opened:
    """How it went."""

    kind: str | None
    message: str
    took_s: float


def open_all(paths: Sequence[Path]) -> list[Opened]:
    """In one process, which must survive all of them."""
    command = [sys.executable, "-m", "tests.support.opening", *map(str, paths)]
    ended = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return [Opened(**json.loads(line)) for line in ended.stdout.splitlines()]


def _hang(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"more than {MAX_S} s of the processor")


def _open(path: str) -> Opened:
    from tailrace.service.tokenizer import Tokenizer  # noqa: PLC0415  (what is imported here need not be imported by tests)
    from tailrace.weights.load import open_checkpoint  # noqa: PLC0415  (as above)

    begin_s = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, MAX_S)
    try:
        checkpoint = open_checkpoint(path)
        for name in checkpoint.tensors:
            assert checkpoint.tensors[name].shape
        Tokenizer.from_source(checkpoint.tokenizer)
        kind, message = None, ""
    except Exception as error:
        kind, message = type(error).__name__, str(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return Opened(kind, message, time.process_time() - begin_s)


def _bound_memory() -> None:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    bound = (int(status["VmData"].split()[0]) << 10) + MORE_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (bound, bound))


if __name__ == "__main__":
    import gguf  # noqa: F401  (before memory is bounded)

    signal.signal(signal.SIGPROF, _hang)
    _bound_memory()
    for each in sys.argv[1:]:
        sys.stdout.write(json.dumps(asdict(_open(each))) + "\n")
