"""One API process as the engine sees it: which requests are its, and what it is told besides plain tokens."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from tailrace.engine.channel import Channel
from tailrace.engine.numbers import generation_of
from tailrace.engine.wire import Command, Detail, decode, detail_of, encode
from tailrace.errors import Overloaded, TailraceError
from tailrace.ring import MessageRing, TokenRing, Told
from tailrace.types import CacheAnswer, FinishReason, Refusal, TokenEvent

__all__ = ["Desk"]

_MOST_COMMANDS = 64  # read at once
_FULL_SHARE, _SPARE_SHARE = 0.75, 0.5  # of a ring: its process lags; it has caught up
_MESSAGE_BYTES = 24  # at most, besides the bytes of the message
_GENERATION_MASK = 0xFFFF


@dataclass(frozen=True, slots=True)
class _Word:
    """What a slot and its detail say."""

    number: int
    detail: Detail | CacheAnswer
    token_id: int | None = None
    logprob: float | None = None
    position: int = 0
    finish_reason: FinishReason | None = None


class Desk:
    """Takes no lock. What finds no room waits here, in order, and `is_lagging` asks for its requests to be paused:

    what still comes then is what was under way, and the end of each.
    """

    def __init__(self, channel: Channel, generation: int, worker_generation: int) -> None:
        self.owner = channel.owner
        self.tokens = TokenRing(channel.tokens)
        self.worker_generation = worker_generation
        self.is_lagging = False
        self.told: dict[str, Told] = {}  # by request id
        self.request_ids: dict[int, str] = {}  # by number
        self.paused_ids: set[str] = set()  # those whose own readers lag
        self._bell = channel.worker_bell
        self._commands = MessageRing(channel.commands)
        self._details = MessageRing(channel.details)
        self._generation = generation
        self._waiting: deque[_Word] = deque()

    @property
    def num_waiting(self) -> int:
        """How many events and answers found no room yet."""
        return len(self._waiting)

    def commands(self) -> Iterator[Command]:
        """Some of those that are for this engine. Raises MessageDamaged, RingDamaged."""
        for _ in range(_MOST_COMMANDS):
            received = self._commands.receive()
            if received is None:
                return
            kind, generation, payload = received
            if generation == self._generation:
                command = decode(kind, payload)
                assert not isinstance(command, Detail | CacheAnswer), f"an API process sent a {type(command).__name__}"
                yield command

    def is_of_now(self, number: int) -> bool:
        """Whether the process gave it that is there now, and not one before it."""
        return generation_of(number) == self.worker_generation & _GENERATION_MASK

    def enter(self, number: int, request_id: str, position: int) -> Told:
        """A request of which there are so many tokens already."""
        told = self.told[request_id] = Told(self.tokens, number, position)
        self.request_ids[number] = request_id
        return told

    def leave(self, request_id: str) -> None:
        del self.request_ids[self.told.pop(request_id).number]
        self.paused_ids.discard(request_id)

    def tell(self, event: TokenEvent) -> None:
        """Pass on an event of one of its requests, whatever it says."""
        told = self.told[event.request_id]
        prefix = None if event.prefix is told.prefix else event.prefix
        if event.token_id is not None:
            told.position += 1
            told.prefix = event.prefix
        detail = detail_of(told.number, event, prefix)
        self._say(_Word(told.number, detail, event.token_id, event.logprob, told.position, event.finish_reason))

    def answer(self, answer: CacheAnswer) -> None:
        """Pass on the answer to one of its questions."""
        self._say(_Word(answer.query_id, answer))

    def refuse(self, number: int, error: TailraceError) -> None:
        """Say why a request is not served, or a question not answered."""
        self._say(_Word(number, _refusal(number, error), finish_reason=FinishReason.ERROR))

    def flush(self) -> None:
        """Say what there is room for now."""
        while self._waiting and self._push(self._waiting[0]):
            self._waiting.popleft()

    def look(self) -> bool:
        """Find out whether it lags."""
        tokens_share = 1 - self.tokens.num_free / self.tokens.num_slots
        share = max(tokens_share, self._details.used_bytes / self._details.capacity_bytes)
        limit = _SPARE_SHARE if self.is_lagging else _FULL_SHARE
        self.is_lagging = bool(self._waiting) or share > limit
        return self.is_lagging

    def ring(self) -> None:
        """Wake it, if it was told anything since it was last woken."""
        if self.tokens.take_pushed():
            self._bell.ring()

    def succeed(self, worker_generation: int) -> None:
        """Another process takes the place of one that is dead, which need not be told anything any more."""
        self.worker_generation = worker_generation
        self._waiting.clear()
        self.told.clear()
        self.request_ids.clear()
        self.paused_ids.clear()
        self.is_lagging = False

    def _say(self, word: _Word) -> None:
        if self._waiting or not self._push(word):
            self._waiting.append(word)

    def _push(self, word: _Word) -> bool:
        kind, parts = encode(word.detail)
        num_bytes = sum(map(len, parts))
        if num_bytes > self._details.max_message_bytes:
            kind, parts = encode(Detail(word.number, error=f"an answer of {num_bytes} bytes is too long to be given"))
            num_bytes = sum(map(len, parts))
        if self._details.free_bytes < num_bytes + _MESSAGE_BYTES or not self.tokens.num_free:
            return False
        self._details.send(kind, self._generation, *parts)
        return self.tokens.push_detailed(
            word.number, word.token_id, word.logprob, word.position, self._generation, word.finish_reason
        )


def _refusal(number: int, error: TailraceError) -> Detail:
    if isinstance(error, Overloaded):
        return Detail(number, refusal=Refusal(error.reason, str(error), error.retry_after_s))
    return Detail(number, error=str(error))
