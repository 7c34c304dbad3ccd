"""Sends an answer over a call. What is there while the client reads slowly leaves as one message a choice."""

from collections.abc import Iterator
from typing import Protocol

from google.protobuf.message import Message

from tailrace.frontends.charged import charged
from tailrace.frontends.gaps import GapClock
from tailrace.frontends.grpc.call import Call
from tailrace.frontends.rate_gate import Visit
from tailrace.service.api import ChoiceDelta, GenerationStream

__all__ = ["Writer", "send_answer"]


class Writer(Protocol):
    """Makes messages of deltas, in the words of some protocol."""

    def messages(self, delta: ChoiceDelta, stream: GenerationStream) -> Iterator[Message]: ...


async def send_answer(stream: GenerationStream, writer: Writer, call: Call, visit: Visit, clock: GapClock) -> None:
    """All of it. Ends the work at once when the call ends, whoever ends it; what was made is charged."""
    async with charged(stream, visit, clock.life):
        while deltas := await stream.take():
            num_messages = 0
            for delta in deltas:
                clock.tick(delta)
                for message in writer.messages(delta, stream):
                    await call.write(message)
                    num_messages += 1
            if num_messages:
                clock.wrote(deltas)
