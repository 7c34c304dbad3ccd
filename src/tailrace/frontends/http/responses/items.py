"""The items of a response: its reasoning, its messages and its calls, as the wire has them."""

from typing import Literal

from msgspec import Struct

from tailrace.frontends.http.answer import AnswerHead
from tailrace.frontends.http.openai.logprobs import ChatTokenLogprob, chat_logprobs
from tailrace.frontends.sections import Section, SectionKind

__all__ = ["Item", "Status", "begun_item", "item_of", "part_of"]

Status = Literal["in_progress", "completed", "incomplete", "failed"]

_ID_PREFIXES = {SectionKind.REASONING: "rs", SectionKind.TEXT: "msg", SectionKind.CALL: "fc"}


class OutputText(Struct, tag_field="type", tag="output_text"):
    text: str
    logprobs: list[ChatTokenLogprob]
    annotations: tuple[()] = ()


class ReasoningText(Struct, tag_field="type", tag="reasoning_text"):
    text: str


class OutputMessage(Struct, tag_field="type", tag="message"):
    id: str
    status: Status
    content: list[OutputText]
    role: str = "assistant"


class OutputReasoning(Struct, tag_field="type", tag="reasoning"):
    """All of it, as the model wrote it: there is no summary, and nothing is encrypted."""

    id: str
    status: Status
    content: list[ReasoningText]
    summary: tuple[()] = ()
    encrypted_content: None = None


class OutputCall(Struct, tag_field="type", tag="function_call"):
    id: str
    status: Status
    call_id: str
    name: str
    arguments: str


Item = OutputMessage | OutputReasoning | OutputCall


def begun_item(head: AnswerHead, number: int, section: Section) -> Item:
    """Item `number` of the answer, of which nothing has come yet."""
    item_id = _id(head, number, section.kind)
    match section.kind:
        case SectionKind.REASONING:
            return OutputReasoning(item_id, "in_progress", [])
        case SectionKind.TEXT:
            return OutputMessage(item_id, "in_progress", [])
        case SectionKind.CALL:
            return OutputCall(item_id, "in_progress", section.call_id, section.name, "")


def item_of(head: AnswerHead, number: int, section: Section, status: Status) -> Item:
    """All of it."""
    item_id = _id(head, number, section.kind)
    match section.kind:
        case SectionKind.REASONING:
            return OutputReasoning(item_id, status, [_reasoning_of(section)])
        case SectionKind.TEXT:
            return OutputMessage(item_id, status, [_text_of(section)])
        case SectionKind.CALL:
            return OutputCall(item_id, status, section.call_id, section.name, section.text)


def _text_of(section: Section) -> OutputText:
    return OutputText(section.text, chat_logprobs(section.logprobs).content)


def _reasoning_of(section: Section) -> ReasoningText:
    return ReasoningText(section.text)


def part_of(section: Section) -> OutputText | ReasoningText:
    """The content of a section that is no call."""
    return _reasoning_of(section) if section.kind is SectionKind.REASONING else _text_of(section)


def _id(head: AnswerHead, number: int, kind: SectionKind) -> str:
    return f"{_ID_PREFIXES[kind]}_{head.answer_id.partition('_')[2]}_{number}"
