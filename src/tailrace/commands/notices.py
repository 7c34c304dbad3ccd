"""What whoever starts a server is told: as text on standard error, or as lines of its log where that is JSON."""

import logging
import sys
from collections.abc import Callable

__all__ = ["Notice", "log_notice", "write_notice"]

logger = logging.getLogger(__name__)

Notice = Callable[[str], None]


def write_notice(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def log_notice(text: str) -> None:
    logger.info("%s", text)
