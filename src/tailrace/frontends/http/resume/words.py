"""What the choices of an answer have said, as words of 32 bits, in the order in which it was said.

    0xxxxxxx  a token            80xxxxxx  from here on choice xxxxxx speaks, which at first is 0
    90xxxxxx  it has ended, for the reason of that number in FinishReason
    A0xxxxxx  the same, with the next token, which so is never there without
    B0xxxxxx  of the prompt, level number xxxxxx gave as many tokens as the next word says
    C0xxxxxx  and why it was no more, by its number in MissReason

Words may break off anywhere: then what is there is what was said before.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tailrace.service.api import Output
from tailrace.types import FinishReason, Level, MissReason, PrefixReport, TokenEvent

__all__ = ["Speech", "read_words"]

_KIND, _VALUE = 0xF000_0000, 0x0FFF_FFFF
_CHOICE, _END, _END_WITH_TOKEN, _FOUND, _MISSED = 0x8000_0000, 0x9000_0000, 0xA000_0000, 0xB000_0000, 0xC000_0000
_REASONS, _LEVELS, _MISSES = list(FinishReason), list(Level), list(MissReason)
_KEPT_ENDS = (FinishReason.STOP, FinishReason.LENGTH)  # others say that something broke, not that the answer is whole


class Speech:
    """Writes what is said as words."""

    def __init__(self) -> None:
        self._index = 0
        self._has_prefix = False

    def words(self, index: int, events: Iterable[TokenEvent]) -> list[int]:
        words = self._turn_to(index)
        for event in events:
            if event.prefix is not None and not self._has_prefix and index == 0:
                self._has_prefix = True
                words += _prefix_words(event.prefix)
            words += _event_words(event)
        return words

    def output_words(self, index: int, output: Output) -> list[int]:
        """What a choice had said before."""
        return self.words(index, output.events(""))

    def _turn_to(self, index: int) -> list[int]:
        if index == self._index:
            return []
        self._index = index
        return [_CHOICE | index]


def _event_words(event: TokenEvent) -> Sequence[int]:
    token = () if event.token_id is None else (event.token_id,)
    if event.finish_reason not in _KEPT_ENDS:
        return token
    kind = _END_WITH_TOKEN if token else _END
    return (kind | _REASONS.index(event.finish_reason), *token)


def _prefix_words(prefix: PrefixReport) -> Iterator[int]:
    for level, count in prefix.num_tokens:
        yield _FOUND | _LEVELS.index(level)
        yield count
    if prefix.reason is not None:
        yield _MISSED | _MISSES.index(prefix.reason)


@dataclass(slots=True)
class _Heard:
    token_ids: list[int] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    ends_with_token: bool = False

    def output(self, prefix: PrefixReport | None) -> Output:
        return Output(self.token_ids, self.finish_reason, prefix, self.ends_with_token)


def read_words(words: Sequence[int], num_choices: int) -> list[Output]:
    """What each choice has said."""
    heard = [_Heard() for _ in range(num_choices)]
    found, missed, has_prefix = list[tuple[Level, int]](), None, False
    choice, rest = heard[0], iter(words)
    for word in rest:
        kind, value = word & _KIND, word & _VALUE
        if kind == _CHOICE:
            choice = heard[value]
        elif kind == _FOUND:
            found.append((_LEVELS[value], next(rest, 0)))
            has_prefix = True
        elif kind == _MISSED:
            missed, has_prefix = _MISSES[value], True
        elif kind == _END:
            choice.finish_reason = _REASONS[value]
        elif kind == _END_WITH_TOKEN:
            if (token_id := next(rest, None)) is not None:
                choice.token_ids.append(token_id)
                choice.finish_reason, choice.ends_with_token = _REASONS[value], True
        else:
            choice.token_ids.append(word)
    prefix = PrefixReport(tuple(found), missed) if has_prefix else None
    return [each.output(prefix) for each in heard]
