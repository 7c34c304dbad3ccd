"""Errors that are our own fault, in the log: in one line without their messages, which may hold a prompt or a path."""

import logging
import os
import traceback

__all__ = ["fault_message", "log_fault", "trace_of"]

_MAX_FRAMES = 8
_MAX_CAUSES = 4


def log_fault(log: logging.Logger, request_id: str, error: BaseException) -> None:
    """What a client is told to look for. Whoever runs the server sees all of it with TAILRACE_DEBUG=1."""
    shown = error if os.environ.get("TAILRACE_DEBUG") else None
    log.error("request %s failed: %s", request_id, trace_of(error), exc_info=shown)


def fault_message(request_id: str) -> str:
    """All that a client is told of such an error."""
    return f"the server failed on this request; its log has the cause under request id {request_id}"


def trace_of(error: BaseException) -> str:
    """Kind and innermost calls, by module and line: `KeyError at a.b.function:12 < a.c.caller:3, from OSError ...`."""
    causes: list[BaseException] = []
    while len(causes) < _MAX_CAUSES:
        causes.append(error)
        cause = error.__cause__ or error.__context__
        if cause is None or cause in causes:
            break
        error = cause
    return ", from ".join(_places(each) for each in causes)


def _places(error: BaseException) -> str:
    frames = [
        f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_name}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    innermost = " < ".join(reversed(frames[-_MAX_FRAMES:]))
    return f"{type(error).__name__} at {innermost}" if innermost else type(error).__name__
