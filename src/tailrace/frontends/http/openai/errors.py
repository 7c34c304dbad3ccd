"""Exceptions as the wire shows them: a status, and the OpenAI error object. What is our fault stays in the log."""

import math
from dataclasses import dataclass

import msgspec

from tailrace.errors import Overloaded, RequestError, UnavailableError

__all__ = ["BodyTooLarge", "Failure", "MethodNotAllowed", "PathNotFound", "UnsupportedMediaType", "failure_of"]


class PathNotFound(RequestError):
    status = 404
    code = "not_found"


class MethodNotAllowed(RequestError):
    status = 405
    code = "method_not_allowed"

    def __init__(self, message: str, *, allowed: str) -> None:
        super().__init__(message)
        self.allowed = allowed


class BodyTooLarge(RequestError):
    status = 413
    code = "body_too_large"


class UnsupportedMediaType(RequestError):
    status = 415
    code = "unsupported_media_type"


@dataclass(frozen=True, slots=True)
class Failure:
    """An error answer; `headers` are those that belong to its status."""

    status: int
    message: str
    type: str
    param: str | None = None
    code: str | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def is_ours(self) -> bool:
        """Whether the log must have the cause, since the client is not told."""
        return self.status == 500

    def encode(self) -> bytes:
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return msgspec.json.encode({"error": error})


def failure_of(error: Exception, request_id: str) -> Failure:
    if isinstance(error, RequestError):
        kind = "rate_limit_error" if error.status == 429 else "invalid_request_error"
        return Failure(error.status, str(error), kind, error.param, error.code, _headers(error))
    if isinstance(error, UnavailableError):
        return Failure(503, str(error), "server_error", code="unavailable")
    message = f"the server failed on this request; its log has the cause under request id {request_id}"
    return Failure(500, message, "server_error", code="internal_error")


def _headers(error: RequestError) -> tuple[tuple[bytes, bytes], ...]:
    if isinstance(error, Overloaded):
        wait_ms = max(0, math.ceil(error.retry_after_s * 1000))
        return (b"retry-after", b"%d" % math.ceil(wait_ms / 1000)), (b"retry-after-ms", b"%d" % wait_ms)
    if isinstance(error, MethodNotAllowed):
        return ((b"allow", error.allowed.encode()),)
    return ()
