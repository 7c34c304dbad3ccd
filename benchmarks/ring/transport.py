"""What is compared: ways for the tokens of a step to get from one process to another."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, NamedTuple, Protocol, TypeAlias

from msgspec import msgpack

from tailrace.types import TokenEvent

__all__ = ["Mode", "Receiver", "Sender", "Step", "Took", "Transport", "decode", "encode", "repeat", "step_of"]


class Mode(StrEnum):
    """What the reader does while there is nothing to read."""

    SPIN = "spinning"
    SLEEP = "sleeping"


class Token(NamedTuple):
    """What a slot of the token ring holds, for those that send messages."""

    number: int
    token_id: int
    logprob: float
    position: int
    generation: int
    finish: int


@dataclass(frozen=True, slots=True)
class Step:
    """The same tokens as the step loop has them, and as peers send them: making these is not counted."""

    events: list[TokenEvent]
    tokens: list[Token]


def step_of(num_tokens: int) -> Step:
    return Step(
        [TokenEvent(f"request-{index}", 1000 + index, logprob=-0.5) for index in range(num_tokens)],
        [Token(index, 1000 + index, -0.5, 17, 1, 0) for index in range(num_tokens)],
    )


Took: TypeAlias = Callable[[int], bool]  # told how many tokens were read and decoded; False: those were the last


class Sender(Protocol):
    def send(self, step: Step) -> None: ...


class Receiver(Protocol):
    def run(self, took: Took) -> None:
        """Read until `took` says False."""
        ...


class Transport(Protocol):
    """Made before the processes are forked; `sender` is called first, each in its process.

    Sockets and threads are made there: a fork would leave threads behind.
    """

    modes: ClassVar[tuple[Mode, ...]]

    def sender(self, num_tokens: int) -> Sender:
        """For steps of so many tokens."""
        ...

    def receiver(self, mode: Mode) -> Receiver: ...


def repeat(receive: Callable[[], int], took: Took) -> None:
    while took(receive()):
        pass


encode = msgpack.Encoder().encode
_decoder = msgpack.Decoder(list[Token])


def decode(frame: bytes | memoryview) -> int:
    """How many tokens are in it, once all are objects."""
    return len(_decoder.decode(frame))
