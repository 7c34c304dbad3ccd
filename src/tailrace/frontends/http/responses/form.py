"""How the client of a response reads its answer."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from tailrace.frontends.http.answer import AnswerHead
from tailrace.frontends.http.gathered import WholeChoice
from tailrace.frontends.http.responses.events import ResponseWriter
from tailrace.frontends.http.responses.response import begun, ended, item_of, status_of, text_of
from tailrace.frontends.http.responses.schema import ResponseBody
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
        item = item_of(head, status_of(choice.finish_reason), [text_of(choice.text, choice.logprobs)])
        return msgspec.json.encode(ended(begun(head, self.fields), item, usage))
