"""Failures in the words of the Anthropic API, which tells a server without room (529) from a client over its limit."""

from collections.abc import Mapping

import msgspec

from tailrace.errors import RefusalReason
from tailrace.frontends.http.errors import Failure

__all__ = ["ANTHROPIC_ERRORS", "AnthropicErrors"]

_OVERLOADED = 529
_OF_THE_SERVER = frozenset(
    (RefusalReason.QUEUE_FULL, RefusalReason.TARGET_UNREACHABLE, RefusalReason.QUEUE_TIMEOUT, RefusalReason.SHED),
)
_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    _OVERLOADED: "overloaded_error",
}


class AnthropicErrors:
    def status(self, failure: Failure) -> int:
        return _OVERLOADED if failure.status == 429 and failure.code in _OF_THE_SERVER else failure.status

    def encode(self, failure: Failure) -> bytes:
        status = self.status(failure)
        kind = _TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
        error = {"type": kind, "message": failure.message}
        return msgspec.json.encode({"type": "error", "error": error, "request_id": failure.request_id})


ANTHROPIC_ERRORS = AnthropicErrors()
