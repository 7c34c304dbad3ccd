"""The stream of an answer: what its usage counts of choices that reason."""

import asyncio
from collections.abc import Sequence

from tailrace.service.answer_form import AnswerForm
from tailrace.service.api import ChoiceDelta
from tailrace.service.choice import Choice
from tailrace.service.choice_rules import ChoiceRules
from tailrace.service.detokenize import TokenTexts
from tailrace.service.formats.format import ReasoningTags
from tailrace.service.parsing.build import machine_factory
from tailrace.service.stream import SubmittedChoice, TextStream
from tailrace.service.token_choice import TokenChoice
from tailrace.types import FinishReason, Request, SamplingParams, TokenEvent
from tests.support.text import ScriptedEngine, byte_level_tokenizer, chunked, events_of

TOKENIZER = byte_level_tokenizer()


def said(request: Request) -> Sequence[tuple[TokenEvent, ...]]:
    """A token of reasoning and its tag, more for the second choice, and an answer."""
    num_thoughts = 1 + int(request.request_id)
    text = "h" * num_thoughts + "</think>lo"
    return list(chunked(events_of(TOKENIZER.encode(text, allow_control=True), FinishReason.LENGTH), [2]))


async def read(kinds: Sequence[type[Choice] | type[TokenChoice]]) -> tuple[Sequence[ChoiceDelta], TextStream]:
    form = AnswerForm("any", "<think>\n")
    rules = ChoiceRules(
        TokenTexts(TOKENIZER.vocabulary, skip_special_tokens=True),
        machine=machine_factory(ReasoningTags(), "", form, (), include_stop=False),
    )
    engine = ScriptedEngine(said)
    submitted = []
    for index, kind in enumerate(kinds):
        tokens = engine.submit(Request(str(index), [1], SamplingParams(max_tokens=9)))
        submitted.append(SubmittedChoice(kind(index, rules), str(index), tokens))
    stream = TextStream(engine, submitted, prompt_tokens=5)
    return [delta async for delta in stream], stream


def test_usage_counts_the_reasoning_of_all_choices() -> None:
    for kinds in ((Choice, Choice), (TokenChoice, TokenChoice)):
        _, stream = asyncio.run(read(kinds))
        assert stream.usage.reasoning_tokens == 2 + 3
        assert stream.usage.completion_tokens == 4 + 5


def test_all_deltas_of_a_batch_come() -> None:
    deltas, _ = asyncio.run(read([Choice]))
    assert "".join([delta.reasoning for delta in deltas]) == "h"
    assert "".join([delta.text for delta in deltas]) == "lo"
    assert deltas[-1].finish_reason is FinishReason.LENGTH
