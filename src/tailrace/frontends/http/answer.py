"""What every answer has, whatever its wire format: a head, and a writer of its frames or one body."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tailrace.frontends.http.errors import Failure
from tailrace.frontends.http.gathered import WholeChoice
from tailrace.service.api import ChoiceDelta, GenerationStream, Usage

__all__ = ["AnswerForm", "AnswerHead", "FrameWriter"]


@dataclass(frozen=True, slots=True)
class AnswerHead:
    answer_id: str
    created_s: int
    model: str
    fingerprint: str
    service_tier: str | None = None  # what the client is told of it; None: nothing


class FrameWriter(Protocol):
    """Makes the frames of one answer in one wire format. `usage`, if there is one, is to be shown in them."""

    @property
    def keep_alive(self) -> bytes:
        """The frame that says nothing but that the stream lives."""
        ...

    @property
    def is_complete(self) -> bool:
        """Whether all choices have ended."""
        ...

    def write(self, buffer: bytearray, delta: ChoiceDelta, usage: Usage | None) -> None:
        """Appends the frames of a delta, perhaps none. Raises when its choice failed."""
        ...

    def close(self, buffer: bytearray, usage: Usage | None) -> None:
        """Appends the last frames. Raises EngineError if the answer is not whole."""
        ...

    def failure(self, failure: Failure) -> bytes:
        """The frames that end an answer which will not be whole."""
        ...


class AnswerForm(Protocol):
    """How the client of one request wants to read its answer."""

    def writer(self, head: AnswerHead, stream: GenerationStream) -> FrameWriter:
        """For the frames of a stream; `stream` is asked for its usage where the format wants that early."""
        ...

    def encode_whole(self, head: AnswerHead, choices: Sequence[WholeChoice], usage: Usage) -> bytes:
        """The body, JSON."""
        ...
