"""How full the rings between an API process and the engine are."""

from contextlib import suppress

from tailrace.engine.channel import Channel
from tailrace.errors import RingDamaged
from tailrace.ring import MessageRing, TokenRing

__all__ = ["ChannelFill"]


class ChannelFill:
    """To be asked by the API process's event loop alone: while an end looks, it does not move itself."""

    def __init__(self, channel: Channel) -> None:
        self._commands = MessageRing(channel.commands)
        self._tokens = TokenRing(channel.tokens)
        self._details = MessageRing(channel.details)

    def shares(self) -> dict[str, float]:
        """By ring, from 0 to 1; nothing when they make no sense, of which those who use them complain."""
        with suppress(RingDamaged):
            return {
                "commands": self._commands.used_bytes / self._commands.capacity_bytes,
                "tokens": 1.0 - self._tokens.num_free / self._tokens.num_slots,
                "details": self._details.used_bytes / self._details.capacity_bytes,
            }
        return {}
