"""How the text side reaches the engine, wherever it runs: submit a request, read its events, abort it, ask it."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from tailrace.types import Explanation, FinishReason, Invalidated, Request, Target, TokenEvent

__all__ = ["EngineClient", "ObservePieces", "TokenFeed", "TokenStream"]

ObservePieces = Callable[[float, int], None]
"""Is told how many seconds some pieces of answers took together, and how many tokens are in them."""


class TokenFeed(Protocol):
    """Events of one request, in order; those that arrived since the last read come together. One reader.

    Whatever happens to the engine, the last event carries a finish_reason. A feed is bounded by the request's own
    max_tokens.
    """

    def take(self) -> Sequence[TokenEvent]:
        """What arrived since the last call, perhaps nothing."""
        ...

    def watch(self, wake: Callable[[], object]) -> None:
        """Calls `wake`, on the event loop, whenever there is something to take after there was nothing."""
        ...


class TokenStream(TokenFeed, Protocol):
    """A feed that can be waited for, too."""

    def __aiter__(self) -> AsyncIterator[Sequence[TokenEvent]]:
        """Waits for events, at least one at a time, until the last."""
        ...


class EngineClient(Protocol):
    @property
    def is_ready(self) -> bool: ...

    @property
    def received_s(self) -> float:
        """When the latest tokens came, of whichever requests; monotonic."""
        ...

    def submit(self, request: Request) -> TokenStream:
        """Queue a request. Raises ContextTooLong, Overloaded, UnavailableError. Call from the event loop's thread."""
        ...

    def abort(self, request_id: str, reason: FinishReason = FinishReason.ABORT) -> None:
        """End a request in whatever phase it is; unknown or ended ones are ignored.

        `reason` is what its record says: STOP when the answer is complete because its text says so.
        """
        ...

    async def explain(self, prompt_ids: Sequence[int], cache_salt: str) -> Explanation:
        """What the cache would give this prompt now. Raises Overloaded, UnavailableError."""
        ...

    async def invalidate(self, target: Target) -> Invalidated:
        """Forget: from the answer on, nothing of it is given to anybody here. Raises Overloaded, UnavailableError."""
        ...
