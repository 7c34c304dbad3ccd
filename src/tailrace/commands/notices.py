"""What whoever starts a server is told: as text on standard error, or as lines of its log where that is JSON."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tailrace.errors import TailraceError

__all__ = ["Notice", "log_notice", "logging_failure", "write_notice"]

logger = logging.getLogger(__name__)

Notice = Callable[[str], None]


def write_notice(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def log_notice(text: str) -> None:
    logger.info("%s", text)


@contextmanager
def logging_failure() -> Iterator[None]:
    """What ends the program within this is a line of the log, and of no other kind."""
    try:
        yield
    except TailraceError as error:
        logger.critical("%s", error)
        raise SystemExit(1) from None
