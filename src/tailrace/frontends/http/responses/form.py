"""How the client of a response reads its answer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from tailrace.frontends.http.answer import AnswerHead
from tailrace.frontends.http.gathered import WholeChoice
from tailrace.frontends.http.responses.events import ResponseWriter
from tailrace.frontends.http.responses.items import Item, item_of
from tailrace.frontends.http.responses.response import begun, ended, status_of
from tailrace.frontends.http.responses.schema import ResponseBody
from tailrace.frontends.sections import Section, SectionKind
from tailrace.service.api import GenerationStream, Usage

__all__ = ["ResponseForm"]


@dataclass(frozen=True, slots=True)
class ResponseForm:
    """`fields` are what the client asked for: an answer tells it again."""

    fields: ResponseBody

    def writer(self, head: AnswerHead, stream: GenerationStream) -> ResponseWriter:
        return ResponseWriter(head, begun(head, self.fields))

    def encode_whole(self, head: AnswerHead, choices: Sequence[WholeChoice], usage: Usage) -> bytes:
        (choice,) = choices
        output = list(_items(head, choice))
        return msgspec.json.encode(ended(begun(head, self.fields), output, choice.finish_reason, usage))


def _items(head: AnswerHead, choice: WholeChoice) -> Iterator[Item]:
    """An answer of nothing is an empty text. Only the last item can have been cut."""
    sections = choice.sections or [_empty_text(choice)]
    for number, section in enumerate(sections):
        is_last = number + 1 == len(sections)
        yield item_of(head, number, section, status_of(choice.finish_reason) if is_last else "completed")


def _empty_text(choice: WholeChoice) -> Section:
    logprobs = [each for each in choice.logprobs if not each.is_reasoning]
    return Section(SectionKind.TEXT, logprobs=logprobs)
