"""How the text side reaches the engine, wherever it runs: submit a request, read its events, abort it."""

from collections.abc import AsyncIterator
from typing import Protocol

from tailrace.types import FinishReason, Request, TokenEvent

__all__ = ["EngineClient", "TokenStream"]


class TokenStream(Protocol):
    """Events of one request, in order; those that arrived since the last read come together.

    The last event carries a finish_reason. A stream is bounded by the request's own max_tokens.
    """

    def __aiter__(self) -> AsyncIterator[tuple[TokenEvent, ...]]: ...


class EngineClient(Protocol):
    @property
    def is_ready(self) -> bool: ...

    def submit(self, request: Request) -> TokenStream:
        """Queue a request. Raises ContextTooLong, Overloaded, UnavailableError. Call from the event loop's thread."""
        ...

    def abort(self, request_id: str, reason: FinishReason = FinishReason.ABORT) -> None:
        """End a request in whatever phase it is; unknown or ended ones are ignored.

        `reason` is what its record says: STOP when the answer is complete because its text says so.
        """
        ...
