"""The command line: runs the verb asked for, turns errors into one line and an exit code.

Importing this loads next to nothing, so that Ctrl-C is answered by `main` from early on.
"""

import gc
import os
import sys
from collections.abc import Sequence

from tailrace.errors import TailraceError

__all__ = ["main"]

_YOUNG = 100_000  # new objects between looks for garbage: a start makes fewer, and hardly any of it is garbage

FAILED, MISUSED, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0 done, 1 failed, 2 misused, 130 interrupted.

    No error shows a traceback, unless TAILRACE_DEBUG is set.
    """
    # Of numpy's BLAS only the reference back end makes use, a row at a time: its threads would wait in busy loops.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    thresholds = gc.get_threshold()
    gc.set_threshold(_YOUNG)
    try:
        return _run(arguments)
    except (Exception, KeyboardInterrupt) as error:
        if os.environ.get("TAILRACE_DEBUG"):
            raise
        return _fail(error)
    finally:
        gc.set_threshold(*thresholds)


def _run(arguments: Sequence[str] | None) -> int:
    from cyclopts import CycloptsError  # noqa: PLC0415  (takes a while, in which Ctrl-C must be heard)

    from tailrace.verbs import app  # noqa: PLC0415  (as above)

    try:
        code = app(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        return _say(f"{error}\nTry 'tailrace --help', or 'tailrace VERB --help'.", MISUSED)
    return code if isinstance(code, int) else 0


def _fail(error: BaseException) -> int:
    """Say on standard error what went wrong; the exit code."""
    match error:
        case KeyboardInterrupt():
            return INTERRUPTED
        case BrokenPipeError():
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the flush at exit would fail again
            return BROKEN_PIPE
        case TailraceError():
            return _say(str(error), FAILED)
        case _:
            return _say(f"internal error: {type(error).__name__}: {error} (TAILRACE_DEBUG=1 shows where)", FAILED)


def _say(message: str, code: int) -> int:
    sys.stderr.write(f"tailrace: {message}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
