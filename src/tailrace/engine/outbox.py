"""Commands on their way to the engine: what has no room in the ring waits, the last word on each request."""

from collections import OrderedDict

from tailrace.engine.wire import Abort, Command, Submit, encode, number_of
from tailrace.errors import InvalidRequest
from tailrace.ring import Bell, MessageRing

__all__ = ["Outbox"]


class Outbox:
    """Written by one thread. `generation` is that of the engine which is to read: others pass over what it gets.

    There waits at most one command for each request, so that whoever bounds requests bounds it.
    """

    def __init__(self, ring: MessageRing, bell: Bell, generation: int) -> None:
        self._ring = ring
        self._bell = bell
        self._generation = generation
        self._waiting: OrderedDict[int, Command] = OrderedDict()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def begin(self, generation: int) -> None:
        """There is another engine, which shall get nothing of what waits for the old one."""
        self._waiting.clear()
        self._generation = generation

    def offer(self, command: Command) -> bool:
        """Send it if there is room now and nothing waits. Raises InvalidRequest if there never is."""
        if self._waiting or not self._write(command):
            return False
        self._bell.ring()
        return True

    def send(self, command: Command) -> None:
        """Send it now or when there is room. It takes the place of what waits for the same request."""
        number = number_of(command)
        earlier = self._waiting.pop(number, None)
        if isinstance(earlier, Submit):
            if not isinstance(command, Abort):
                self._waiting[number] = earlier
            return  # the engine has not heard of it
        if not self.offer(command):
            self._waiting[number] = command

    def drop(self, number: int) -> None:
        """Do not send what waits under this number."""
        self._waiting.pop(number, None)

    def flush(self) -> None:
        """Send what there is room for now."""
        num_before = len(self._waiting)
        while self._waiting:
            number, command = next(iter(self._waiting.items()))
            if not self._write(command):
                break
            del self._waiting[number]
        if len(self._waiting) < num_before:
            self._bell.ring()

    def _write(self, command: Command) -> bool:
        try:
            kind, parts = encode(command)
            return self._ring.send(kind, self._generation, *parts)
        except (ValueError, OverflowError) as error:
            raise InvalidRequest(f"this is too long or too odd to be handed to the engine: {error}") from error
