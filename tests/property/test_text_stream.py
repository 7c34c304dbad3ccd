"""Streamed text against the whole answer: however tokens arrive, the same text, tokens and ending come out."""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.service.answer_form import ALL_TEXT, AnswerForm
from tailrace.service.api import ChoiceDelta, Generation, ModelCard, TextLogprob, TokenPrompt
from tailrace.service.choice import Choice
from tailrace.service.choice_rules import ChoiceRules
from tailrace.service.delta_writer import call_id
from tailrace.service.detokenize import Detokenizer, TokenTexts
from tailrace.service.formats.format import ReasoningTags
from tailrace.service.parsing.build import machine_factory
from tailrace.service.parsing.machine import TextMachine
from tailrace.service.parsing.segments import AnswerPiece, CallBegins, CallGoesOn, ReasoningPiece, Segment
from tailrace.service.service import TextService
from tailrace.service.stop import StopMatcher, StopStrings
from tailrace.service.token_choice import TokenChoice
from tailrace.service.tokenizer import Tokenizer
from tailrace.types import FinishReason, Request, SamplingParams, TokenEvent
from tests.support.text import ScriptedEngine, byte_level_tokenizer, chunked, events_of, sentencepiece_tokenizer

TOKENIZERS = [byte_level_tokenizer(), sentencepiece_tokenizer(), sentencepiece_tokenizer(add_space_prefix=False)]
PHRASES = ["hello the ", "😀!", "é中文", "e\u0301 👩‍👩‍👧", "hehello", "  \n\n", "<|im_end|>", "\ufffd"]


Part = tuple[str, str]  # of an answer: its kind, for a call with all that names it, and its text


@dataclass(frozen=True)
class Answer:
    """All of one choice, put together from its deltas."""

    parts: list[Part]
    token_ids: tuple[int, ...]
    logprobs: tuple[TextLogprob, ...]
    finish_reason: FinishReason | None
    stop_reason: str | int | None

    @property
    def text(self) -> str:
        return "".join([text for kind, text in self.parts if kind == "text"])


@dataclass(frozen=True)
class Case:
    tokenizer: Tokenizer
    token_ids: list[int]
    finish_reason: FinishReason
    stop: tuple[str, ...]
    include_stop: bool
    skip_special_tokens: bool
    min_tokens: int = 0

    @property
    def text_ids(self) -> list[int]:
        is_hidden = self.finish_reason is FinishReason.STOP and not self.include_stop
        return self.token_ids[:-1] if is_hidden else self.token_ids

    @property
    def num_free(self) -> int:
        """Characters of the text in which no stop string may end."""
        texts = TokenTexts(self.tokenizer.vocabulary, skip_special_tokens=self.skip_special_tokens)
        detokenizer = Detokenizer(texts)
        free = "".join(map(detokenizer.feed, self.text_ids[: self.min_tokens]))
        return len(free + detokenizer.finish() if self.min_tokens >= len(self.token_ids) else free)

    def taken_apart(self) -> Callable[[], TextMachine] | None:
        return machine_factory(None, "", ALL_TEXT, self.stop, include_stop=self.include_stop)

    def rules(self) -> ChoiceRules:
        return ChoiceRules(
            TokenTexts(self.tokenizer.vocabulary, skip_special_tokens=self.skip_special_tokens),
            machine=self.taken_apart(),
            include_stop=self.include_stop,
            min_tokens=self.min_tokens,
            request_id="r",
        )


def whole_text(tokenizer: Tokenizer, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
    shown = [i for i in token_ids if not (skip_special_tokens and tokenizer.is_control(i))]
    return b"".join(map(tokenizer.token_bytes, shown)).decode("utf-8", "replace")


def stopped_text(text: str, stops: Sequence[str], *, include_stop: bool, num_free: int = 0) -> tuple[str, str | None]:
    """The rule of stop strings, said plainly: the first place where one ends, and the longest that ends there.

    In the first `num_free` characters none ends.
    """
    for end in range(num_free + 1, len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            stop = max(ending, key=len)
            return text[: end if include_stop else end - len(stop)], stop
    return text, None


@st.composite
def token_lists(draw: st.DrawFn, tokenizer: Tokenizer, min_size: int = 1) -> list[int]:
    """Words and characters as a model would say them, and ids that make no sense."""
    phrases = st.sampled_from(PHRASES).map(lambda text: tokenizer.encode(text, allow_control=False))
    noise = st.lists(st.integers(0, tokenizer.vocab_size), min_size=1, max_size=3)
    parts = draw(st.lists(phrases | noise, min_size=min_size, max_size=8))
    return [token_id for part in parts for token_id in part]


@st.composite
def stop_lists(draw: st.DrawFn, text: str) -> tuple[str, ...]:
    """Pieces of the text, which will be met, and strings that begin as if they would."""
    cuts = st.tuples(st.integers(0, len(text)), st.integers(1, 6)).map(lambda cut: text[cut[0] : cut[0] + cut[1]])
    near = st.tuples(cuts, st.text("he lo!\ufffd", max_size=2)).map("".join)
    return tuple(stop for stop in draw(st.lists(cuts | near, max_size=4)) if stop)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    tokenizer = draw(st.sampled_from(TOKENIZERS))
    token_ids = draw(token_lists(tokenizer))
    skip_special_tokens = draw(st.booleans())
    text = whole_text(tokenizer, token_ids, skip_special_tokens=skip_special_tokens)
    return Case(
        tokenizer,
        token_ids,
        draw(st.sampled_from([FinishReason.STOP, FinishReason.LENGTH])),
        draw(stop_lists(text)),
        draw(st.booleans()),
        skip_special_tokens,
        draw(st.sampled_from([0, 0, 1, 3, 6])),
    )


def parts_of(delta: ChoiceDelta) -> list[Part]:
    calls = [(f"call {call.index} {call.name} {call.call_id}", call.arguments) for call in delta.calls]
    return [("reasoning", delta.reasoning), ("text", delta.text), *calls]


def joined(parts: Sequence[Part]) -> list[Part]:
    """Parts of a kind that follow each other are one, and so is a call."""
    whole: list[Part] = []
    for kind, text in parts:
        goes_on = kind.rstrip() if kind.startswith("call") else kind
        if whole and whole[-1][0].startswith(goes_on):
            whole[-1] = (whole[-1][0], whole[-1][1] + text)
        elif text or kind.startswith("call"):
            whole.append((kind, text))
    return whole


def part_of(segment: Segment) -> Part:
    match segment:
        case ReasoningPiece(text):
            return "reasoning", text
        case AnswerPiece(text):
            return "text", text
        case CallBegins(number, name):
            return f"call {number} {name} {call_id('r', 0, number)}", ""
        case CallGoesOn(number, arguments):
            return f"call {number}  ", arguments


def put_together(deltas: Sequence[ChoiceDelta]) -> Answer:
    assert all(delta.finish_reason is None for delta in deltas[:-1])
    return Answer(
        joined([part for delta in deltas for part in parts_of(delta)]),
        tuple(i for delta in deltas for i in delta.token_ids),
        tuple(logprob for delta in deltas for logprob in delta.logprobs),
        deltas[-1].finish_reason,
        deltas[-1].stop_reason,
    )


def streamed(case: Case, sizes: Sequence[int]) -> tuple[Answer, tuple[int, int]]:
    """The answer when events come in batches of these sizes, and how many tokens and reasoning tokens it counts."""
    choice = Choice(0, case.rules())
    batches = chunked(events_of(case.token_ids, case.finish_reason, with_logprobs=True), sizes)
    deltas = [delta for batch in batches if not choice.is_done for delta in choice.feed(batch)]
    return put_together(deltas), (choice.num_tokens, choice.num_reasoning_tokens)


SIZES = st.lists(st.integers(1, 4), max_size=40)


@settings(max_examples=300)
@given(cases(), SIZES)
def test_a_stream_put_together_is_the_whole_answer(case: Case, sizes: list[int]) -> None:
    whole = streamed(case, [])
    assert streamed(case, sizes) == whole
    assert streamed(case, [1] * len(case.token_ids)) == whole


@settings(max_examples=200)
@given(cases())
def test_the_whole_answer_is_the_decoded_text_up_to_a_stop_string(case: Case) -> None:
    answer, num_tokens = streamed(case, [])
    decoded = whole_text(case.tokenizer, case.text_ids, skip_special_tokens=case.skip_special_tokens)
    text, stop = stopped_text(decoded, case.stop, include_stop=case.include_stop, num_free=case.num_free)
    assert (answer.text, answer.stop_reason) == (text, stop)
    assert answer.finish_reason is (case.finish_reason if stop is None else FinishReason.STOP)
    assert answer.token_ids == tuple(case.token_ids[: len(answer.token_ids)])
    assert [logprob.token_id for logprob in answer.logprobs] == list(answer.token_ids)
    if stop is None:
        assert answer.token_ids == tuple(case.token_ids)
        assert num_tokens == (len(case.token_ids), 0)


def place_in_text(raw: bytes, cut: int) -> int:
    """How many characters there are before byte `cut`; one that the cut goes through is not before it."""
    before, behind = (part.decode("utf-8", "replace") for part in (raw[:cut], raw[cut:]))
    return len(before) - (before + behind != raw.decode("utf-8", "replace"))


@settings(max_examples=200)
@given(cases())
def test_every_token_tells_its_place_in_the_text(case: Case) -> None:
    logprobs = streamed(case, [1] * len(case.token_ids))[0].logprobs[: len(case.text_ids)]
    hidden = case.tokenizer.vocabulary.control if case.skip_special_tokens else frozenset[int]()
    parts = [b"" if entry.token_id in hidden else entry.raw for entry in logprobs]
    raw = b"".join([b"" if i in hidden else case.tokenizer.token_bytes(i) for i in case.text_ids])
    for place, entry in enumerate(logprobs):
        if parts[place]:
            assert entry.offset == place_in_text(raw, len(b"".join(parts[:place])))


@settings(max_examples=200)
@given(st.data())
def test_nothing_is_held_that_could_not_become_a_stop_string(data: st.DataObject) -> None:
    text = data.draw(st.text("ab<", max_size=30))
    stops = data.draw(st.lists(st.text("ab<", min_size=1, max_size=4), min_size=1, max_size=4))
    cuts = data.draw(st.lists(st.integers(1, 5), max_size=30))
    matcher = StopMatcher(StopStrings(stops))
    given_out = seen = ""
    while seen != text and matcher.matched is None:
        size = cuts.pop() if cuts else 1
        given_out += matcher.feed(text[len(seen) : len(seen) + size])
        seen = text[: len(seen) + size]
        if matcher.matched is None:
            held = seen[len(given_out) :]
            assert not held or any(stop.startswith(held) for stop in stops)
    assert (given_out + matcher.finish(), matcher.matched) == stopped_text(text, stops, include_stop=False)


@settings(max_examples=200)
@given(st.data())
def test_detokenizing_one_by_one_gives_the_decoded_text(data: st.DataObject) -> None:
    tokenizer = data.draw(st.sampled_from(TOKENIZERS))
    token_ids = data.draw(token_lists(tokenizer, min_size=0))
    skip = data.draw(st.booleans())
    detokenizer = Detokenizer(TokenTexts(tokenizer.vocabulary, skip_special_tokens=skip), at_start=True)
    text = "".join([*map(detokenizer.feed, token_ids), detokenizer.finish()])
    assert text == tokenizer.decode(token_ids, skip_special_tokens=skip)


MODEL = ModelCard("tiny", (), created_s=0, max_model_tokens=1000, vocab_size=300)


@settings(max_examples=100)
@given(st.lists(st.tuples(cases(), SIZES), min_size=1, max_size=3))
def test_choices_that_stream_together_are_each_their_whole_answer(choices: list[tuple[Case, list[int]]]) -> None:
    first = choices[0][0]
    played = [
        (replace(first, token_ids=case.token_ids, finish_reason=case.finish_reason, skip_special_tokens=True), sizes)
        for case, sizes in choices
        if case.tokenizer is first.tokenizer
    ]

    def script(request: Request) -> list[tuple[TokenEvent, ...]]:
        case, sizes = played[int(request.request_id.rpartition("-")[2])]
        return list(chunked(events_of(case.token_ids, case.finish_reason, with_logprobs=True), sizes))

    async def read() -> tuple[list[ChoiceDelta], int]:
        service = TextService(ScriptedEngine(script), first.tokenizer, None, MODEL)
        sampling = SamplingParams(max_tokens=500, min_tokens=first.min_tokens, num_logprobs=0)
        prompt = TokenPrompt([first.tokenizer.vocab_size - 1])  # some text, so that an answer goes on from it
        stream = await service.start(
            Generation("r", prompt, sampling, n=len(played), stop=first.stop, include_stop=first.include_stop)
        )
        return [delta async for delta in stream], stream.usage.completion_tokens

    deltas, num_tokens = asyncio.run(read())
    expected = [streamed(case, []) for case, _ in played]
    for index, (answer, _) in enumerate(expected):
        assert put_together([delta for delta in deltas if delta.index == index]) == answer
    assert num_tokens == sum(count for _, (count, _) in expected)


CALL_STYLE = "hermes"
SAID = [
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    '{"name": "f", "arguments": {"a',
    '": 1}}',
    "hello",
    "\n",
    "😀<",
]


@dataclass(frozen=True)
class FormedCase(Case):
    """An answer with reasoning and calls."""

    opened: str = ""

    def taken_apart(self) -> Callable[[], TextMachine] | None:
        form = AnswerForm("any", self.opened, has_tools=True)
        return machine_factory(ReasoningTags(), CALL_STYLE, form, self.stop, include_stop=self.include_stop)


@st.composite
def formed_cases(draw: st.DrawFn) -> FormedCase:
    tokenizer = draw(st.sampled_from(TOKENIZERS))
    said = draw(st.lists(st.sampled_from(SAID), min_size=1, max_size=10).map("".join))
    ids = [i for part in re.split("(<think>|</think>)", said) for i in tokenizer.encode(part, allow_control=True)]
    ending = draw(st.sampled_from([FinishReason.STOP, FinishReason.LENGTH]))
    stop = tuple(draw(st.lists(st.sampled_from(["lo", "hell", "\n", "<", "oh", "a"]), max_size=2)))
    opened = draw(st.sampled_from(["", "<think>\n", "</think>", "hel"]))
    min_tokens = draw(st.sampled_from([0, 0, 3]))
    include_stop, skip = draw(st.booleans()), draw(st.booleans())
    return FormedCase(tokenizer, [*ids, 2], ending, stop, include_stop, skip, min_tokens, opened)


@settings(max_examples=150)
@given(formed_cases(), SIZES)
def test_a_stream_of_reasoning_and_calls_put_together_is_the_whole_answer(case: FormedCase, sizes: list[int]) -> None:
    whole = streamed(case, [])
    assert streamed(case, sizes) == whole
    assert streamed(case, [1] * len(case.token_ids)) == whole


@settings(max_examples=150)
@given(formed_cases())
def test_the_whole_answer_is_the_decoded_text_taken_apart(case: FormedCase) -> None:
    case = replace(case, min_tokens=0)
    make = case.taken_apart()
    assert make is not None
    machine = make()
    segments = machine.feed(whole_text(case.tokenizer, case.text_ids, skip_special_tokens=case.skip_special_tokens))
    if machine.matched is None:
        segments += machine.finish()
    answer, _ = streamed(case, [1] * len(case.token_ids))
    assert answer.parts == joined(list(map(part_of, segments)))
    assert answer.stop_reason == machine.matched
    if machine.matched is not None:
        assert answer.finish_reason is FinishReason.STOP
    elif case.finish_reason is FinishReason.STOP and any(isinstance(each, CallBegins) for each in segments):
        assert answer.finish_reason is FinishReason.TOOL_CALLS
    else:
        assert answer.finish_reason is case.finish_reason


@settings(max_examples=150)
@given(formed_cases(), SIZES)
def test_a_reader_of_tokens_learns_the_same_end(case: FormedCase, sizes: list[int]) -> None:
    events = list(chunked(events_of(case.token_ids, case.finish_reason), sizes))
    with_text, without = Choice(0, case.rules()), TokenChoice(0, case.rules())
    ends = []
    for choice in (with_text, without):
        deltas = [delta for batch in events if not choice.is_done for delta in choice.feed(batch)]
        ends.append((deltas[-1].finish_reason, deltas[-1].stop_reason, choice.num_tokens))
    assert ends[0] == ends[1]
    assert with_text.num_reasoning_tokens == without.num_reasoning_tokens
