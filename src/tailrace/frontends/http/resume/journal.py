"""Keeps an answer in the store while it is made."""

from collections.abc import Callable, Sequence

from tailrace.errors import UnavailableError
from tailrace.frontends.http.resume.store import Entry, ResumeStore
from tailrace.frontends.http.resume.words import Speech
from tailrace.service.api import Output, SettledGeneration
from tailrace.types import TokenEvent

__all__ = ["StoreJournal"]


class StoreJournal:
    """A Journal of one epoch of a stream. Where the store has no room, nothing is kept, and the stream goes on."""

    def __init__(
        self,
        store: ResumeStore,
        stream_id: bytes,
        key: bytes,
        head_of: Callable[[SettledGeneration], bytes],
        epoch: int,
    ) -> None:
        """`head_of` makes of what was submitted what is to be kept of it."""
        self._store = store
        self._stream_id = stream_id
        self._key = key
        self._head_of = head_of
        self._epoch = epoch
        self._speech = Speech()
        self._entry: Entry | None = None

    def begin(self, settled: SettledGeneration, outputs: Sequence[Output]) -> None:
        """From now on whoever keeps an earlier epoch is told that it is over."""
        self._entry = self._store.create(self._stream_id, self._key, self._head_of(settled), epoch=self._epoch)
        self._store.take_over(self._stream_id, self._epoch)
        if self._entry is not None:
            for index, output in enumerate(outputs):
                self._entry.add(self._speech.output_words(index, output))

    def add(self, index: int, events: Sequence[TokenEvent]) -> None:
        if self._entry is None:
            return
        if self._entry.is_taken_over:
            raise UnavailableError("this stream was taken up again by another request")
        self._entry.add(self._speech.words(index, events))

    def end(self) -> None:
        if self._entry is not None:
            self._entry.end()
