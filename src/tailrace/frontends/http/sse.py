"""Streams an answer as server-sent events: one task takes what the model has said, frames it and writes it.

While the client takes nothing, nothing is taken of the stream: its tokens wait there, up to its bound, and leave as one
delta. So what one client does not read costs neither frames nor text, and its request is not computed any further.
"""

from typing import Protocol

from tailrace.frontends.gaps import GapClock
from tailrace.frontends.http.answer import FrameWriter
from tailrace.frontends.http.pulse import Pulse
from tailrace.service.api import GenerationStream

__all__ = ["send_stream"]


class UsageWish(Protocol):
    """Where its client wants to see what an answer took."""

    @property
    def include_usage(self) -> bool:
        """When the frames end."""
        ...

    @property
    def continuous_usage(self) -> bool:
        """In every frame."""
        ...


async def send_stream(
    stream: GenerationStream, wish: UsageWish, *, writer: FrameWriter, clock: GapClock, pulse: Pulse
) -> None:
    """Sends all of a stream. Raises what ended it early, once all that came before is sent."""
    async with pulse:
        frames = bytearray()
        try:
            while not writer.is_complete and (deltas := await stream.take()):
                usage = stream.usage if wish.continuous_usage else None
                for delta in deltas:
                    clock.tick(delta)
                    writer.write(frames, delta, usage)
                if frames and not writer.is_complete:
                    await pulse.write(_taken(frames))
                    clock.wrote(deltas)
            writer.close(frames, stream.usage if wish.include_usage else None)
        except Exception:
            if frames:
                await pulse.write(bytes(frames))
            raise
        await pulse.end(bytes(frames))
        clock.ended()


def _taken(frames: bytearray) -> bytes:
    taken = bytes(frames)
    frames.clear()
    return taken
