"""Exceptions as a client is told of them, whatever the wire format. What is our fault stays in the log."""

import math
from dataclasses import dataclass
from typing import Protocol

from tailrace.errors import Overloaded, RequestError, UnavailableError
from tailrace.frontends.api_keys import Unauthorized
from tailrace.frontends.faults import fault_message

__all__ = [
    "BodyStalled",
    "BodyTooLarge",
    "ErrorShape",
    "Failure",
    "MethodNotAllowed",
    "PathNotFound",
    "UnsupportedMediaType",
    "failure_of",
]


class PathNotFound(RequestError):
    status = 404
    code = "not_found"


class MethodNotAllowed(RequestError):
    status = 405
    code = "method_not_allowed"

    def __init__(self, message: str, *, allowed: str) -> None:
        super().__init__(message)
        self.allowed = allowed


class BodyStalled(RequestError):
    status = 408
    code = "body_stalled"


class BodyTooLarge(RequestError):
    status = 413
    code = "body_too_large"


class UnsupportedMediaType(RequestError):
    status = 415
    code = "unsupported_media_type"


@dataclass(frozen=True, slots=True)
class Failure:
    """An error to tell; `headers` are those that belong to its status."""

    status: int
    message: str
    request_id: str
    param: str | None = None
    code: str | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def is_ours(self) -> bool:
        """Whether the log must have the cause, since the client is not told."""
        return self.status == 500


class ErrorShape(Protocol):
    """How one API words a failure."""

    def status(self, failure: Failure) -> int: ...

    def encode(self, failure: Failure) -> bytes:
        """The body of the answer, JSON."""
        ...


def failure_of(error: Exception, request_id: str) -> Failure:
    if isinstance(error, RequestError):
        return Failure(error.status, str(error), request_id, error.param, error.code, _headers(error))
    if isinstance(error, UnavailableError):
        headers = () if error.retry_after_s is None else _retry_after(error.retry_after_s)
        return Failure(503, str(error), request_id, code="unavailable", headers=headers)
    return Failure(500, fault_message(request_id), request_id, code="internal_error")


def _headers(error: RequestError) -> tuple[tuple[bytes, bytes], ...]:
    if isinstance(error, Overloaded):
        dropped = b"x-llm-d-request-dropped-reason", error.reason.value.encode()
        return *_retry_after(error.retry_after_s), dropped
    if isinstance(error, MethodNotAllowed):
        return ((b"allow", error.allowed.encode()),)
    if isinstance(error, Unauthorized):
        return ((b"www-authenticate", b"Bearer"),)
    return ()


def _retry_after(seconds: float) -> tuple[tuple[bytes, bytes], ...]:
    """Whole seconds, rounded up, as HTTP has it; and in milliseconds, as OpenAI's clients read it first."""
    wait_ms = max(0, math.ceil(seconds * 1000))
    return (b"retry-after", b"%d" % math.ceil(wait_ms / 1000)), (b"retry-after-ms", b"%d" % wait_ms)
