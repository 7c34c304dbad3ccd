"""The text machine against a plain reading of the whole text, which says of each character what it is."""

import random
import re
from collections.abc import Sequence
from itertools import accumulate, takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.service.answer_form import AnswerForm
from tailrace.service.formats.format import ReasoningTags
from tailrace.service.parsing.build import machine_factory
from tailrace.service.parsing.machine import TextMachine
from tailrace.service.parsing.reasoning import ReasoningStage
from tailrace.service.parsing.tools import TOOL_STYLES
from tailrace.service.stop import StopMatcher, StopStrings
from tests.support.bracketed_calls import BracketedCalls
from tests.support.call_texts import damaged, fragments, well_formed
from tests.support.machine_reading import Fate, Reading, fates, fates_of, read

PIECES = [
    "<think>",
    "</think>",
    "<",
    "</",
    "th",
    "ink>",
    "\n",
    "\n\n",
    " ",
    "a",
    "b",
    "[",
    "f",
    ":",
    "]",
    "[f:a]",
    "[f]",
]
BEGINNINGS = ["", "", "<think>", "\n<think>\n", "<think>a</think>", "</think>"]
TEXTS = st.tuples(st.sampled_from(BEGINNINGS), st.lists(st.sampled_from(PIECES), max_size=10)).map(
    lambda drawn: drawn[0] + "".join(drawn[1])
)
CUTS = st.lists(st.integers(1, 9), max_size=30)
# All that what is undecided depends on: each tag from any character on, each end of a name, and anything else.
TAILS = ["", "x", ":x", "]x"] + [f"{tag[place:]}x" for tag in ("<think>", "</think>") for place in range(len(tag))]

_DROPPED: Fate = ("", "")


def fates_in(text: str) -> list[Fate]:
    """What becomes of each character of a whole text."""
    begins = re.match(r"[ \t\r\n]*<think>\n*", text)
    if begins is None:
        lone = re.match(r"[ \t\r\n]*</think>\n*", text)
        num_dropped = lone.end() if lone else 0
        return [_DROPPED] * num_dropped + fates_in_answer(text[num_dropped:])
    ended = re.match(r"(.*?)(</think>\n*|(?=\[)|\Z)", text[begins.end() :], re.DOTALL)
    assert ended is not None
    reasoning, end = ended.groups()
    answer = text[begins.end() + ended.end() :]
    return [_DROPPED] * begins.end() + fates("reasoning", reasoning) + [_DROPPED] * len(end) + fates_in_answer(answer)


def fates_in_answer(text: str) -> list[Fate]:
    call = r"\[(?P<name>[^][:]*):(?P<arguments>[^]]*)\]?"
    no_call = r"\[(?P<none>[^][:]*)\]?"
    found: list[Fate] = []
    for match in re.finditer(rf"{call}|{no_call}|.", text, re.DOTALL):
        name, arguments, none = match.groups()
        if name is not None:
            found += [_DROPPED] * (1 + len(name)) + [("call", name), *fates("arguments", arguments)]
        elif none is not None:
            found += [_DROPPED, *fates("answer", none)]
        else:
            found.append(("answer", match[0]))
        found += [_DROPPED] * (match.end() - len(found))
    return found


def whole_reading(text: str, num_opened: int, stops: Sequence[str], *, include_stop: bool) -> Reading:
    parts: list[Fate] = []
    run = ""  # of answer that nothing has interrupted
    for place, (kind, shown) in enumerate(fates_in(text)):
        if not kind or (place < num_opened and kind in ("answer", "reasoning")):
            continue
        parts.append((kind, shown))
        run = run + shown if kind == "answer" else ""
        if met := [stop for stop in stops if run.endswith(stop)]:
            stop = max(met, key=len)
            num_cut = 0 if include_stop else len(stop)
            return Reading(parts[: len(parts) - num_cut], place + 1 - num_cut - num_opened, stop)
    return Reading(parts, len(text) - num_opened)


def machine(stops: Sequence[str] = (), opened: str = "", *, include_stop: bool = False) -> TextMachine:
    stop = StopMatcher(StopStrings(stops), include_stop=include_stop) if stops else None
    reasoning = ReasoningStage(ReasoningTags(), ("[",))
    return TextMachine(reasoning, BracketedCalls(), stop, opened=opened, call_characters=frozenset("[]"))


def pieces(text: str, sizes: Sequence[int]) -> list[str]:
    """The text in pieces of the given sizes, the rest together."""
    ends = list(accumulate(sizes, initial=0))
    return [text[begin:end] for begin, end in zip(ends, [*ends[1:], len(text)], strict=True)]


STOPS = st.lists(st.sampled_from(["a", "ab", "ba", "\n", "f", "a\n", "b[", "</t", "fb"]), max_size=3)


@settings(max_examples=300)
@given(TEXTS, st.integers(0, 12), CUTS, STOPS, st.booleans())
def test_any_cutting_gives_what_reading_the_whole_gives(
    text: str, num_opened: int, sizes: list[int], stops: list[str], include_stop: bool
) -> None:
    opened, said = text[:num_opened], text[num_opened:]
    whole = whole_reading(text, len(opened), stops, include_stop=include_stop)
    for cut in ([], sizes, [1] * len(said)):
        assert read(machine(stops, opened, include_stop=include_stop), pieces(said, cut)) == whole


@settings(max_examples=150)
@given(TEXTS, CUTS)
def test_nothing_is_held_that_is_decided_and_nothing_comes_out_that_is_not(text: str, sizes: list[int]) -> None:
    """What is decided is what becomes of a character however the text goes on."""
    taken_apart, seen, came_out = machine(), "", list[Fate]()
    for piece in pieces(text, sizes):
        seen += piece
        came_out += fates_of(taken_apart.feed(piece))
        futures = zip(*[fates_in(seen + tail)[: len(seen)] for tail in TAILS], strict=True)
        decided = [ways[0] for ways in takewhile(lambda ways: len(set(ways)) == 1, futures)]
        assert taken_apart.num_certain == len(decided)
        assert came_out == [fate for fate in decided if fate[0]]


@settings(max_examples=100)
@given(TEXTS, CUTS)
def test_the_end_of_reasoning_is_known_with_the_text_behind_it(text: str, sizes: list[int]) -> None:
    taken_apart = machine()
    read(taken_apart, pieces(text, sizes))
    reasoning = re.match(r"[ \t\r\n]*<think>.*?(</think>|(?=\[)|\Z)", text, re.DOTALL)
    end = 0 if reasoning is None else reasoning.end()
    assert min(taken_apart.reasoning_end, len(text)) == end


@pytest.mark.parametrize("style", TOOL_STYLES)
@settings(max_examples=40)
@given(st.integers(0, 2**32).map(random.Random), CUTS, STOPS)
def test_any_cutting_of_real_calls_is_the_same(
    style: str, chance: random.Random, sizes: list[int], stops: list[str]
) -> None:
    write = chance.choice([lambda chance, style: well_formed(chance, style)[0], damaged, fragments])
    text = chance.choice(BEGINNINGS) + write(chance, style) + chance.choice(["", "a b", "\nab"])
    make = machine_factory(ReasoningTags(), style, AnswerForm(style, has_tools=True), stops, include_stop=False)
    assert make is not None
    whole = read(make(), [text])
    for cut in (pieces(text, sizes), text):
        assert read(make(), cut) == whole
