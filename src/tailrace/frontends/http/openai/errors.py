"""Failures in the words of the OpenAI API: the status, and its error object."""

import msgspec

from tailrace.frontends.http.errors import Failure

__all__ = ["OPENAI_ERRORS", "OpenAiErrors", "error_type"]


class OpenAiErrors:
    def status(self, failure: Failure) -> int:
        return failure.status

    def encode(self, failure: Failure) -> bytes:
        error = {"message": failure.message, "type": error_type(failure), "param": failure.param, "code": failure.code}
        return msgspec.json.encode({"error": error})


OPENAI_ERRORS = OpenAiErrors()


def error_type(failure: Failure) -> str:
    if failure.status >= 500:
        return "server_error"
    return "rate_limit_error" if failure.status == 429 else "invalid_request_error"
