"""How a choice may end, if its answer is to be whole."""

from tailrace.errors import EngineError, UnavailableError
from tailrace.service.api import ChoiceDelta
from tailrace.types import FinishReason

__all__ = ["check_end", "check_unbroken"]


def check_end(delta: ChoiceDelta) -> None:
    """Raises when a choice ended otherwise than by the model or its limits: such an answer is not whole."""
    check_unbroken(delta)
    if delta.finish_reason is FinishReason.ABORT:
        raise UnavailableError("the server ended this request before its answer was whole; send it again")


def check_unbroken(delta: ChoiceDelta) -> None:
    """Raises EngineError when the engine failed, for whom any other end is one."""
    if delta.finish_reason is FinishReason.ERROR:
        raise EngineError(delta.error or "the engine gave no reason")
