"""What the tests of all front ends ask and hear, in words that belong to none of them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Literal, Protocol

from tailrace.service.api import ChoiceDelta, Usage

__all__ = ["Answer", "Choice", "FrontEnd", "Piece", "Reading", "Refused", "Wish", "counts", "gathered"]

Kind = Literal["invalid", "too long", "overloaded", "unavailable", "failed"]


@dataclass(frozen=True)
class Wish:
    """A request. None for `logprobs`: none; 0: of the chosen tokens."""

    prompt: str
    max_tokens: int = 16
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    n: int = 1
    stop: tuple[str, ...] = ()
    logprobs: int | None = None
    service_class: str = ""
    tenant: str = ""


@dataclass
class Refused(Exception):
    """Why there was no answer, or no more of it."""

    kind: Kind
    param: str | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True)
class Piece:
    """Some more of one choice. `logprobs` are of its tokens."""

    index: int
    text: str
    finish: str | None = None
    stop: str | int | None = None
    logprobs: tuple[float, ...] = ()

    @classmethod
    def of_delta(cls, delta: ChoiceDelta) -> "Piece":
        if delta.error is not None:
            raise Refused("failed")
        logprobs = tuple(each.logprob for each in delta.logprobs)
        return cls(delta.index, delta.text, delta.finish_reason, delta.stop_reason, logprobs)


@dataclass
class Choice:
    text: str = ""
    finish: str | None = None
    stop: str | int | None = None
    logprobs: list[float] = field(default_factory=list)


@dataclass
class Answer:
    choices: dict[int, Choice] = field(default_factory=dict)
    usage: tuple[int, int] = (0, 0)  # tokens of the prompt, and of the answer

    def add(self, piece: Piece) -> None:
        choice = self.choices.setdefault(piece.index, Choice())
        assert choice.finish is None, "a piece after the end"
        choice.text += piece.text
        choice.finish, choice.stop = piece.finish, piece.stop
        choice.logprobs.extend(piece.logprobs)


class Reading(Protocol):
    """An answer while it comes. Raises Refused for what ends it early."""

    def __aiter__(self) -> AsyncIterator[Piece]: ...

    @property
    def usage(self) -> tuple[int, int]:
        """Once it has ended."""
        ...

    async def leave(self) -> None:
        """As a client leaves that has had enough."""
        ...


class FrontEnd(Protocol):
    async def start(self, wish: Wish) -> Reading:
        """Raises Refused, or has the first piece raise it."""
        ...


async def gathered(reading: Reading) -> Answer:
    answer = Answer()
    async for piece in reading:
        answer.add(piece)
    answer.usage = reading.usage
    return answer


def counts(usage: Usage) -> tuple[int, int]:
    return usage.prompt_tokens, usage.completion_tokens
