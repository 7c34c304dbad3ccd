"""The head of a kept stream as bytes: all that its events follow from, but for its tokens. MessagePack."""

from array import array
from dataclasses import replace
from typing import Literal

from msgspec import Struct, msgpack

from tailrace.frontends.http.answer import AnswerHead
from tailrace.service.api import SettledGeneration

__all__ = ["ShownStream", "StreamRecord"]


class ShownStream(Struct, frozen=True):
    """How its client reads it."""

    kind: Literal["chat", "completion"]
    head: AnswerHead
    include_usage: bool
    continuous_usage: bool
    shows_reasoning: bool = True


class _Record(Struct, frozen=True):
    shown: ShownStream
    settled: SettledGeneration  # without its prompt
    prompt: bytes  # 4 bytes an id


class StreamRecord(Struct, frozen=True):
    shown: ShownStream
    settled: SettledGeneration

    def encode(self) -> bytes:
        prompt = array("I", self.settled.prompt_ids).tobytes()
        return _encoder.encode(_Record(self.shown, replace(self.settled, prompt_ids=()), prompt))

    @classmethod
    def decode(cls, data: bytes) -> "StreamRecord":
        """Of what `encode` has made."""
        record = _decoder.decode(data)
        return cls(record.shown, replace(record.settled, prompt_ids=array("I", record.prompt)))


_encoder = msgpack.Encoder()
_decoder = msgpack.Decoder(_Record)
