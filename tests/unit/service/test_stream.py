"""The stream of an answer: what its usage counts of choices that reason."""

import asyncio
import time
from collections.abc import Sequence

from tailrace.service.answer_form import ALL_TEXT, AnswerForm
from tailrace.service.api import ChoiceDelta
from tailrace.service.choice import Choice
from tailrace.service.choice_rules import ChoiceRules
from tailrace.service.detokenize import TokenTexts
from tailrace.service.formats.format import ReasoningTags
from tailrace.service.parsing.build import machine_factory
from tailrace.service.stream import SubmittedChoice, TextStream
from tailrace.service.token_choice import TokenChoice
from tailrace.telemetry.lives import RequestLife
from tailrace.types import Beginning, FinishReason, Request, SamplingParams, TokenEvent
from tests.support.following import make_life
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


def beginning(number: int) -> Beginning:
    return Beginning(number + 0.25, number + 0.5, number + 0.75)


def stream_of(events: Sequence[TokenEvent], life: RequestLife, *others: Sequence[TokenEvent]) -> TextStream:
    """One event at each turn of the loop; the stream of the first choice, and of others, which are said at once."""
    rules = ChoiceRules(
        TokenTexts(TOKENIZER.vocabulary, skip_special_tokens=True),
        machine=machine_factory(ReasoningTags(), "", ALL_TEXT, ("abc",), include_stop=False),
    )
    scripts = [chunked(events, [1] * len(events)), *[[tuple(each)] for each in others]]
    engine = ScriptedEngine(lambda request: list(scripts[int(request.request_id)]), received_s=5.0)
    submitted = []
    for index in range(len(scripts)):
        tokens = engine.submit(Request(str(index), [1], SamplingParams(max_tokens=9)))
        submitted.append(SubmittedChoice(Choice(index, rules), str(index), tokens))
    return TextStream(engine, submitted, prompt_tokens=5, milestones=life)


def spoken(text: str, *, begins: int | None = 1) -> list[TokenEvent]:
    first, *rest = events_of(TOKENIZER.encode(text, allow_control=True))
    return [first if begins is None else first._replace(beginning=beginning(begins)), *rest]


async def test_the_way_to_the_first_text_is_noted() -> None:
    life = make_life()
    stream = stream_of(spoken("the h"), life)
    await stream.take()
    assert (life.beginning, life.received_s, life.finish_reason) == (beginning(1), 5.0, None)
    assert (text_s := life.text_s) is not None
    while await stream.take():
        pass
    assert (life.beginning, life.text_s, life.finish_reason) == (beginning(1), text_s, "length")


async def test_of_text_that_is_held_back_there_is_none_yet() -> None:
    life = make_life()
    stream = stream_of(spoken("abxy"), life)  # may become the stop string
    reading = asyncio.ensure_future(stream.take())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (life.received_s, life.text_s) == (5.0, None)
    await reading
    assert life.text_s is not None


async def test_what_a_second_engine_says_of_its_beginning_is_passed_over() -> None:
    life = make_life()
    events = spoken("abxy")  # before there is text of the first token, and behind
    events[1] = events[1]._replace(beginning=beginning(2))
    events[3] = events[3]._replace(beginning=beginning(3))
    async for _ in stream_of(events, life):
        pass
    assert life.beginning == beginning(1)


async def test_a_choice_that_is_not_the_first_is_not_noted() -> None:
    life = make_life()
    stream = stream_of(spoken("the h"), life, spoken("hh", begins=7))
    assert {delta.index for delta in await stream.take()} == {0, 1}
    assert life.beginning == beginning(1)
    assert life.finish_reason is None  # the other has ended


async def test_a_stop_string_is_the_end_that_is_noted() -> None:
    life = make_life()
    async for _ in stream_of(spoken("hello abc the"), life):
        pass
    assert life.finish_reason == "stop"


async def test_an_answer_that_breaks_off_before_its_first_token_has_no_way_to_it() -> None:
    life = make_life()
    async for _ in stream_of([TokenEvent("0", None, finish_reason=FinishReason.ABORT)], life):
        pass
    assert (life.beginning, life.text_s, life.finish_reason) == (None, None, "abort")


async def test_of_tokens_that_were_said_before_none_is_the_first() -> None:
    life = make_life()
    before, after = spoken("hh", begins=None)[:1], spoken("the")
    stream = stream_of([*before, *after], life)
    await stream.take()
    assert (life.beginning, life.text_s) == (None, None)
    await stream.take()
    assert life.beginning == beginning(1)
    assert life.text_s is not None


async def test_one_piece_in_sixteen_is_timed() -> None:
    told: list[tuple[float, int]] = []
    rules = ChoiceRules(TokenTexts(TOKENIZER.vocabulary, skip_special_tokens=True))
    events = events_of(TOKENIZER.encode("x" * 33, allow_control=True))
    now_s = time.monotonic()
    engine = ScriptedEngine(lambda request: list(chunked(events[:32], [1] * 32)), received_s=now_s - 1000.0)
    tokens = engine.submit(Request("0", [1], SamplingParams(max_tokens=9)))
    submitted = [SubmittedChoice(Choice(0, rules), "0", tokens)]
    stream = TextStream(
        engine, submitted, prompt_tokens=5, observe_text=lambda took_s, count: told.append((took_s, count))
    )
    for _ in range(32):
        assert len(await stream.take()) == 1
    assert [count for _, count in told] == [1, 1]
    assert all(took_s >= 1000.0 for took_s, _ in told)
