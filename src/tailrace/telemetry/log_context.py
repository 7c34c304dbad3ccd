"""Which request a line of the log is about: known in API processes, where each is answered in a task of its own."""

from contextvars import ContextVar
from typing import NamedTuple

__all__ = ["LogContext", "log_context"]


class LogContext(NamedTuple):
    """As its client knows it, and the trace that it belongs to; empty: there is none."""

    request_id: str = ""
    trace_id: str = ""


_NONE = LogContext()

log_context: ContextVar[LogContext] = ContextVar("log_context", default=_NONE)
"""Set by a front end when it knows; what it calls, and starts, finds it."""
