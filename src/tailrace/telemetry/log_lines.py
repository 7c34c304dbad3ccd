"""The log as JSON, one object a line, for who collects it; what Python itself complains of is in it too.

Without it the log is what Python makes of it: messages of warnings and worse, as text.
"""

import json
import logging
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType

from tailrace.telemetry.log_context import log_context

__all__ = ["JsonLines", "write_json_log"]

_OWN = logging.getLogger("tailrace")


class JsonLines(logging.Formatter):
    """`process_name` tells which of a server's processes speaks.

    `request_id` and `trace` (a traceparent) of a record's `extra` go before what is known of the task that it is from.
    """

    def __init__(self, process_name: Callable[[], str]) -> None:
        super().__init__()
        self._process_name = process_name

    def format(self, record: logging.LogRecord) -> str:
        about = log_context.get()
        trace = getattr(record, "trace", "")
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "process": self._process_name(),
            "request_id": getattr(record, "request_id", about.request_id),
            "trace_id": trace.split("-")[1] if trace else about.trace_id,
            "exception": self.formatException(record.exc_info) if record.exc_info else "",
        }
        return json.dumps({name: value for name, value in fields.items() if value})


def write_json_log(process_name: Callable[[], str]) -> None:
    """To standard error from now on, in this process and in those that it forks."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines(process_name))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    _OWN.setLevel(logging.INFO)
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught
    threading.excepthook = _log_uncaught_in_thread


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _OWN.critical("an error that nobody expected", exc_info=(kind, error, trace))


def _log_uncaught_in_thread(arguments: threading.ExceptHookArgs) -> None:
    if arguments.exc_value is not None:
        _log_uncaught(arguments.exc_type, arguments.exc_value, arguments.exc_traceback)
