"""The error tree. Every message says what was wrong, where, and what to do.

TailraceError
├── RequestError            the request is at fault (HTTP 4xx)
│   ├── InvalidRequest      400: malformed, out of range, unsupported (param names the field)
│   ├── ContextTooLong      400: prompt + max_tokens can never fit
│   ├── ModelNotFound       404
│   └── Overloaded          429: a queue is full; retry_after_s says when to come back
├── UnavailableError        503: loading, draining or gone
├── ModelError              a model file is damaged, truncated or not supported
│   ├── CheckpointError     the bytes are wrong (file and tensor named)
│   └── UnsupportedModel    the bytes are fine, the architecture or format is not known here
├── SetupError              the machine or the command line is at fault (port, disk, network, compiler)
└── EngineError             500: our own fault; the request id finds it in the log
"""

__all__ = [
    "CheckpointError",
    "ContextTooLong",
    "EngineError",
    "InvalidRequest",
    "ModelError",
    "ModelNotFound",
    "Overloaded",
    "RequestError",
    "SetupError",
    "TailraceError",
    "UnavailableError",
    "UnsupportedModel",
]


class TailraceError(Exception):
    """Root of everything this package raises on purpose."""


class RequestError(TailraceError):
    """The request is at fault. `param` names the field, `code` is the machine-readable reason."""

    status = 400
    code: str | None = None

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code or type(self).code


class InvalidRequest(RequestError):
    code = "invalid_value"


class ContextTooLong(RequestError):
    code = "context_length_exceeded"


class ModelNotFound(RequestError):
    status = 404
    code = "model_not_found"


class Overloaded(RequestError):
    status = 429
    code = "overloaded"

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class UnavailableError(TailraceError):
    status = 503


class ModelError(TailraceError):
    """A model cannot be loaded."""


class CheckpointError(ModelError):
    pass


class UnsupportedModel(ModelError):
    pass


class SetupError(TailraceError):
    pass


class EngineError(TailraceError):
    status = 500
