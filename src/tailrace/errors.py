"""The error tree. Every message says what was wrong, where, and what to do.

TailraceError
├── RequestError            the request is at fault (HTTP 4xx)
│   ├── InvalidRequest      400: malformed, out of range, unsupported (param names the field)
│   ├── GuideError          400: a grammar that cannot be compiled, or has become too complex to follow
│   ├── ContextTooLong      400: prompt + max_tokens can never fit
│   ├── ModelNotFound       404
│   └── Overloaded          429: not now; retry_after_s says when to come back, reason (and code) why
├── UnavailableError        503: loading, draining or gone; retry_after_s says when to come back, if that is known
├── ModelError              a model file is damaged, truncated or not supported
│   ├── CheckpointError     the bytes are wrong (file and tensor named)
│   └── UnsupportedModel    the bytes are fine, the architecture or format is not known here
├── SetupError              the machine or the command line is at fault (port, disk, network, compiler)
└── EngineError             500: our own fault; the request id finds it in the log
    └── RingDamaged         what lies in memory between two processes makes no sense
"""

from enum import StrEnum

__all__ = [
    "MAX_RETRY_S",
    "MIN_RETRY_S",
    "CheckpointError",
    "ContextTooLong",
    "EngineError",
    "GuideError",
    "InvalidRequest",
    "ModelError",
    "ModelNotFound",
    "Overloaded",
    "RefusalReason",
    "RequestError",
    "RingDamaged",
    "SetupError",
    "TailraceError",
    "UnavailableError",
    "UnsupportedModel",
    "heeded_s",
]

MIN_RETRY_S, MAX_RETRY_S = 1.0, 60.0  # beyond a minute clients do not heed it


class RefusalReason(StrEnum):
    """Why a request that could be served is not, now."""

    QUEUE_FULL = "queue_full"
    TENANT_LIMIT = "tenant_limit"  # its tenant has as many requests as one may have
    RATE_LIMITED = "rate_limited"  # its API key has used what it may in a minute
    TARGET_UNREACHABLE = "target_unreachable"  # its first token would come later than its class promises
    QUEUE_TIMEOUT = "queue_timeout"  # it waited for as long as its class, or it itself, allows
    SHED = "shed"  # a rule of the operator keeps its class out, so that better ones keep their targets


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


class GuideError(RequestError):
    code = "invalid_grammar"


class ContextTooLong(RequestError):
    code = "context_length_exceeded"


class ModelNotFound(RequestError):
    status = 404
    code = "model_not_found"


class Overloaded(RequestError):
    status = 429

    def __init__(self, message: str, *, retry_after_s: float, reason: RefusalReason = RefusalReason.QUEUE_FULL) -> None:
        super().__init__(message, code=reason.value)
        self.retry_after_s = retry_after_s
        self.reason = reason


class UnavailableError(TailraceError):
    status = 503

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


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


class RingDamaged(EngineError):
    pass


def heeded_s(seconds: float) -> float:
    """The time nearest to this after which clients do come back, for `retry_after_s`."""
    return min(max(seconds, MIN_RETRY_S), MAX_RETRY_S)
