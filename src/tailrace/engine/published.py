"""What engines have published for an API process, read back: token slots, each with its detail if it has one."""

from typing import NamedTuple

from tailrace.engine.channel import Channel
from tailrace.engine.numbers import Numbers
from tailrace.engine.wire import Detail, MessageDamaged, decode, number_of
from tailrace.ring import MessageRing, TokenRing
from tailrace.types import CacheAnswer, FinishReason

__all__ = ["Arrival", "Published"]


class Arrival(NamedTuple):
    """A token of a request, its end, or both; or the answer to a question, or why there is none."""

    number: int
    generation: int
    token_id: int | None
    logprob: float | None
    position: int  # tokens of the request so far
    finish_reason: FinishReason | None
    detail: Detail | CacheAnswer | None


class Published:
    """Read by one thread, in the process that gives these numbers, which has not used any yet.

    What is under others is for a process that was there before. It may have died with slots taken and their details
    not, which would hold up the engine if they lay there until the next slot that has one. Raises RingDamaged.
    """

    def __init__(self, channel: Channel, numbers: Numbers) -> None:
        self._tokens = TokenRing(channel.tokens)
        self._details = MessageRing(channel.details)
        self._numbers = numbers
        while self._details.receive() is not None:
            pass

    def take(self, most: int) -> list[Arrival]:
        """The next ones, in order; none: all is read. Raises MessageDamaged, RingDamaged."""
        while slots := self._tokens.pop(most):
            arrivals = [
                Arrival(
                    number,
                    generation,
                    token_id,
                    logprob,
                    position,
                    finish_reason,
                    self._detail(number, generation) if has_detail else None,
                )
                for number, token_id, logprob, position, generation, finish_reason, has_detail in slots
                if number in self._numbers
            ]
            if arrivals:
                return arrivals
        return []

    def _detail(self, number: int, generation: int) -> Detail | CacheAnswer:
        """The one that belongs to a slot. Behind a process that died there may be some whose slot was never seen."""
        while (message := self._details.receive()) is not None:
            kind, written_by, payload = message
            detail = decode(kind, payload)
            if not isinstance(detail, Detail | CacheAnswer):
                raise MessageDamaged(f"an engine published a {type(detail).__name__}")
            if written_by == generation and number_of(detail) == number:
                return detail
        raise MessageDamaged(f"the detail of number {number} is not there")
