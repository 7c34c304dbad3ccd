"""The calls of one process that make an answer, by the names their clients gave them: for whoever aborts by name."""

from collections.abc import Iterator
from contextlib import contextmanager

from tailrace.service.api import GenerationStream

__all__ = ["LiveCall", "LiveCalls"]


class LiveCall:
    """Aborted before its stream exists, it is as soon as it does."""

    def __init__(self) -> None:
        self._stream: GenerationStream | None = None
        self._is_aborted = False

    async def begins(self, stream: GenerationStream) -> None:
        self._stream = stream
        if self._is_aborted:
            await stream.aclose()

    async def abort(self) -> None:
        """Its reader is told by the end of its deltas."""
        self._is_aborted = True
        if self._stream is not None:
            await self._stream.aclose()


class LiveCalls:
    """A name may be in use several times, by a retry, and is its client's alone."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str], list[LiveCall]] = {}
        self.num_live = 0

    @contextmanager
    def entered(self, client_name: str, name: str) -> Iterator[LiveCall]:
        call = LiveCall()
        same = self._calls.setdefault((client_name, name), [])
        same.append(call)
        self.num_live += 1
        try:
            yield call
        finally:
            self.num_live -= 1
            same.remove(call)
            if not same:
                del self._calls[client_name, name]

    async def abort(self, client_name: str, name: str) -> None:
        """A name that nobody has, or has no more, is passed over."""
        for call in tuple(self._calls.get((client_name, name), ())):
            await call.abort()
