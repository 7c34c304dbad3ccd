"""Errors as a call ends with them: a status, and google.rpc.Status for whoever reads more than words.

What is our fault stays in the log.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from tailrace.errors import Overloaded, RequestError, UnavailableError
from tailrace.frontends.faults import fault_message

__all__ = ["CallRefused", "Failure", "failure_of"]

Metadata = tuple[tuple[str, str | bytes], ...]

_DOMAIN = "tailrace"
_STATUSES = {
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
}


class CallRefused(RequestError):
    """Refused by what gRPC has a status for, and HTTP perhaps another."""

    def __init__(self, status: grpc.StatusCode, message: str, *, param: str | None = None, code: str) -> None:
        super().__init__(message, param=param, code=code)
        self.grpc_status = status


@dataclass(frozen=True, slots=True)
class Failure:
    """How a call ends that fails. Whether `is_ours` says whether the log must have the cause."""

    status: grpc.StatusCode
    message: str
    details: tuple[Message, ...] = ()
    headers: Metadata = ()
    is_ours: bool = False

    @property
    def metadata(self) -> Metadata:
        rich = Status(code=self.status.value[0], message=self.message)
        for detail in self.details:
            rich.details.add().Pack(detail)
        return ("grpc-status-details-bin", rich.SerializeToString()), *self.headers


def failure_of(error: Exception, request_id: str) -> Failure:
    if isinstance(error, RequestError):
        return Failure(_status_of(error), str(error), tuple(_details(error)), _headers(error))
    if isinstance(error, UnavailableError):
        details = (_error_info("unavailable"), *_retry_info(error.retry_after_s))
        return Failure(grpc.StatusCode.UNAVAILABLE, str(error), details, _pushback(error.retry_after_s))
    return Failure(grpc.StatusCode.INTERNAL, fault_message(request_id), (_error_info("internal_error"),), is_ours=True)


def _status_of(error: RequestError) -> grpc.StatusCode:
    if isinstance(error, CallRefused):
        return error.grpc_status
    return _STATUSES.get(error.status, grpc.StatusCode.INVALID_ARGUMENT)


def _details(error: RequestError) -> Iterator[Message]:
    yield _error_info(error.code or "")
    if error.param is not None:
        violation = BadRequest.FieldViolation(field=error.param, description=str(error))
        yield BadRequest(field_violations=[violation])
    if isinstance(error, Overloaded):
        yield from _retry_info(error.retry_after_s)


def _headers(error: RequestError) -> Metadata:
    if isinstance(error, Overloaded):
        return *_pushback(error.retry_after_s), ("x-llm-d-request-dropped-reason", error.reason.value)
    return ()


def _error_info(code: str) -> ErrorInfo:
    return ErrorInfo(reason=code.upper(), domain=_DOMAIN)


def _retry_info(seconds: float | None) -> Iterator[Message]:
    if seconds is not None:
        delay = Duration()
        delay.FromMilliseconds(_milliseconds(seconds))
        yield RetryInfo(retry_delay=delay)


def _pushback(seconds: float | None) -> Metadata:
    """The wait that gRPC clients with a retry policy keep by themselves."""
    return () if seconds is None else (("grpc-retry-pushback-ms", str(_milliseconds(seconds))),)


def _milliseconds(seconds: float) -> int:
    return max(0, math.ceil(seconds * 1000))
