"""Where a client is in a stream: the `id` of an event says what of the answer has come with it.

    12.3,-,40.9!        of choice 0 there were 12 characters and 3 tokens so far, of choice 1 nothing, and choice 2 has
                        ended; a `u` at the end: so has the whole, the usage included

Characters are of reasoning, text and arguments, and where a call begins is one more. Characters and tokens say what is
missing however an answer is cut into events, which differs from one time to another.
"""

import re
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace

from tailrace.errors import InvalidRequest
from tailrace.service.api import CallDelta, ChoiceDelta, GenerationStream, Usage

__all__ = ["MAX_MARKED_CHOICES", "Mark", "Marks", "RestOfStream"]

MAX_MARKED_CHOICES = 16  # the id is in each event, and has a place for each

_CHOICE = re.compile(r"-|([0-9]{1,9})\.([0-9]{1,9})(!?)", re.ASCII)


@dataclass(slots=True)
class Mark:
    """How far a choice is. It is open once anything of it was sent."""

    num_chars: int = 0
    num_tokens: int = 0
    is_open: bool = False
    is_finished: bool = False

    def move(self, delta: ChoiceDelta) -> None:
        """Over all that is in a delta."""
        self.num_chars += len(delta.reasoning) + len(delta.text)
        if delta.calls:
            self.num_chars += sum(bool(call.name) + len(call.arguments) for call in delta.calls)
        self.num_tokens += len(delta.token_ids)

    def __str__(self) -> str:
        return f"{self.num_chars}.{self.num_tokens}{'!' * self.is_finished}" if self.is_open else "-"


class Marks:
    """How far an answer is; `line` is the field of an event that says so."""

    def __init__(self, choices: Sequence[Mark], *, has_usage: bool = False) -> None:
        self.choices = choices
        self.has_usage = has_usage

    @classmethod
    def begin(cls, num_choices: int) -> "Marks":
        return cls([Mark() for _ in range(num_choices)])

    @classmethod
    def parse(cls, event_id: str, num_choices: int) -> "Marks":
        """Raises InvalidRequest for what is no id of a stream of so many choices."""
        parts = [_CHOICE.fullmatch(part) for part in event_id.removesuffix("u").split(",")]
        if len(parts) != num_choices or None in parts:
            raise InvalidRequest("Last-Event-ID is none of this stream", param="last-event-id")
        return cls([_mark(part) for part in parts if part is not None], has_usage=event_id.endswith("u"))

    def __str__(self) -> str:
        return f"{','.join(map(str, self.choices))}{'u' * self.has_usage}"

    @property
    def line(self) -> bytes:
        return f"id: {self}\n".encode()

    @property
    def num_finished(self) -> int:
        return sum(choice.is_finished for choice in self.choices)


def _mark(part: re.Match[str]) -> Mark:
    if part[1] is None:
        return Mark()
    return Mark(int(part[1]), int(part[2]), is_open=True, is_finished=bool(part[3]))


class RestOfStream:
    """A GenerationStream: what comes of another behind the marks."""

    def __init__(self, whole: GenerationStream, marks: Marks) -> None:
        self._whole = whole
        self._sent = [replace(mark) for mark in marks.choices]  # what is still to be left out

    @property
    def prompt_tokens(self) -> int:
        return self._whole.prompt_tokens

    @property
    def usage(self) -> Usage:
        return self._whole.usage

    async def take(self) -> Sequence[ChoiceDelta]:
        """All deltas that are there, at least one; none once the stream has ended."""
        while deltas := await self._whole.take():
            if rest := [each for each in map(self._behind, deltas) if each is not None]:
                return rest
        return ()

    async def __aiter__(self) -> AsyncIterator[ChoiceDelta]:
        while deltas := await self.take():
            for delta in deltas:
                yield delta

    async def aclose(self) -> None:
        await self._whole.aclose()

    def _behind(self, delta: ChoiceDelta) -> ChoiceDelta | None:
        sent = self._sent[delta.index]
        if sent.is_finished:
            return None
        if not sent.num_chars and not sent.num_tokens:
            return delta
        rest = replace(delta, token_ids=delta.token_ids[sent.num_tokens :])
        if sent.num_chars:
            rest.reasoning, rest.text = _behind_text(delta.reasoning, sent), _behind_text(delta.text, sent)
            rest.calls = tuple(_behind_calls(delta.calls, sent))
        # Of what was said before, the first tokens have no log probabilities.
        num_without = len(delta.token_ids) - len(delta.logprobs)
        rest.logprobs = delta.logprobs[max(0, sent.num_tokens - num_without) :]
        sent.num_tokens -= len(delta.token_ids) - len(rest.token_ids)
        has_more = rest.text or rest.reasoning or rest.calls or rest.token_ids
        return rest if has_more or rest.finish_reason is not None else None


def _behind_text(text: str, sent: Mark) -> str:
    """What of it was not sent, in the order of an answer's parts."""
    rest = text[sent.num_chars :]
    sent.num_chars -= len(text) - len(rest)
    return rest


def _behind_calls(calls: Sequence[CallDelta], sent: Mark) -> Iterator[CallDelta]:
    for call in calls:
        is_begun = bool(call.name) and sent.num_chars > 0
        sent.num_chars -= is_begun
        arguments = _behind_text(call.arguments, sent)
        if call.name and not is_begun:
            yield call
        elif arguments:
            yield CallDelta(call.index, arguments)
