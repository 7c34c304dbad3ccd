"""One answer as it comes out of its lane: messages in, what they mean out. Knows nothing of waiting."""

from msgspec import DecodeError, msgpack

from tailrace.errors import EngineError, RingDamaged, TailraceError
from tailrace.frontends.shm.layout import Lane
from tailrace.frontends.shm.wire import DELTAS, FAILURES, USAGES, AnswerDelta, AnswerUsage, Down

__all__ = ["AnswerReader", "Begun"]

_COUNTS = msgpack.Decoder(int)


class Begun(int):
    """The answer has begun: the number of the prompt's tokens."""


News = Begun | AnswerDelta | AnswerUsage | TailraceError
"""The usage, or the error, is the last."""


class AnswerReader:
    def __init__(self, lane: Lane) -> None:
        self.is_over = False  # the server is done with the lane
        self._ring = lane.ring
        self._parts: list[bytes] = []

    def take(self) -> News | None:
        """What has come; None when nothing has. Raises EngineError for what no server sends."""
        try:
            while (message := self._ring.receive()) is not None:
                kind, _, content = message
                if kind != Down.PART:
                    return self._decoded(kind, content)
                self._parts.append(content)
        except (RingDamaged, DecodeError, ValueError) as error:
            raise EngineError(f"what came of the answer through shared memory makes no sense: {error}") from None
        return None

    def _decoded(self, kind: int, content: bytes) -> News:
        if self._parts:
            content = b"".join((*self._parts, content))
            self._parts.clear()
        if kind == Down.DELTA:
            return DELTAS.decode(content)
        if kind == Down.BEGUN:
            return Begun(_COUNTS.decode(content))
        self.is_over = True
        return USAGES.decode(content) if kind == Down.END else FAILURES.decode(content).to_error()
