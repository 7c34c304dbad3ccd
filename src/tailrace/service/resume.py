"""The tokens of an answer that is taken up again: those so far, then those to come, which its journal learns of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tailrace.engine.client import TokenFeed
from tailrace.service.api import Journal
from tailrace.types import TokenEvent

__all__ = ["NO_TOKENS", "JournaledTokens", "TokensGoOn"]


@dataclass(frozen=True, slots=True)
class JournaledTokens:
    """A TokenFeed whose events are in the journal before anybody sees them."""

    tokens: TokenFeed
    index: int
    journal: Journal

    def take(self) -> Sequence[TokenEvent]:
        if events := self.tokens.take():
            self.journal.add(self.index, events)
        return events

    def watch(self, wake: Callable[[], object]) -> None:
        self.tokens.watch(wake)


class _NoTokens:
    """A TokenFeed of what has ended before."""

    def take(self) -> Sequence[TokenEvent]:
        return ()

    def watch(self, wake: Callable[[], object]) -> None:
        """Nothing will ever be there."""


NO_TOKENS = _NoTokens()


@dataclass(slots=True)
class TokensGoOn:
    """A TokenFeed: the events of what was said before, then those to come."""

    before: Sequence[TokenEvent]
    rest: TokenFeed
    _wake: Callable[[], object] = field(default=lambda: None)

    def take(self) -> Sequence[TokenEvent]:
        if not self.before:
            return self.rest.take()
        events, self.before = self.before, ()
        self.rest.watch(self._wake)
        return events

    def watch(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        if self.before:
            wake()
        else:
            self.rest.watch(wake)
