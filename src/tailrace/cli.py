"""The command line: names the verbs, loads the one asked for, turns errors into one line and an exit code."""

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError, Parameter

from tailrace.errors import TailraceError
from tailrace.version import __version__

__all__ = ["app", "main"]

FAILED, MISUSED, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141

VERBS = {
    "serve": "Serve a model over an OpenAI-compatible HTTP API.",
    "chat": "Talk to a model in the terminal.",
    "complete": "Continue a text.",
    "bench": "Measure any OpenAI-compatible server under load.",
    "inspect": "Show what a model file holds and what it needs.",
}

app = App(
    name="tailrace",
    help="A streaming inference server for DeepSeek-family models.",
    help_epilogue="Examples:\n  tailrace serve\n  tailrace chat\n  tailrace VERB --help",
    help_format="plaintext",
    version=__version__,
    default_parameter=Parameter(negative=()),
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
for _verb, _summary in VERBS.items():
    app.command(f"tailrace.commands.{_verb}:{_verb}", name=_verb, help=_summary)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0 done, 1 failed, 2 misused, 130 interrupted.

    No error shows a traceback, unless TAILRACE_DEBUG is set.
    """
    try:
        code = app(arguments, exit_on_error=False, print_error=False)
    except (Exception, KeyboardInterrupt) as error:
        if os.environ.get("TAILRACE_DEBUG"):
            raise
        return _fail(error)
    return code if isinstance(code, int) else 0


def _fail(error: BaseException) -> int:
    """Say on standard error what went wrong; the exit code."""
    match error:
        case KeyboardInterrupt():
            return INTERRUPTED
        case BrokenPipeError():
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the flush at exit would fail again
            return BROKEN_PIPE
        case CycloptsError():
            return _say(f"{error}\nTry 'tailrace --help', or 'tailrace VERB --help'.", MISUSED)
        case TailraceError():
            return _say(str(error), FAILED)
        case _:
            return _say(f"internal error: {type(error).__name__}: {error} (TAILRACE_DEBUG=1 shows where)", FAILED)


def _say(message: str, code: int) -> int:
    sys.stderr.write(f"tailrace: {message}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
