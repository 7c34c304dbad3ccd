import random

import pytest

from tailrace.frontends.http.resume.words import Speech, read_words
from tailrace.service.api import Output
from tailrace.types import FinishReason, Level, MissReason, PrefixReport, TokenEvent

PREFIX = PrefixReport(((Level.ENGINE, 16), (Level.REDIS, 70_000)), MissReason.EVICTED)


def said(seed: int, num_choices: int) -> list[tuple[int, list[TokenEvent]]]:
    """What choices say in turns; some end, with a token or without."""
    draw, turns, is_open = random.Random(seed), list[tuple[int, list[TokenEvent]]](), [True] * num_choices
    for _ in range(30):
        index = draw.randrange(num_choices)
        if is_open[index]:
            events = [TokenEvent("", draw.randrange(2**27), PREFIX) for _ in range(draw.randrange(1, 4))]
            if draw.random() < 0.2:
                is_open[index] = False
                last = draw.choice([None, 5])
                events.append(TokenEvent("", last, PREFIX, draw.choice([FinishReason.STOP, FinishReason.LENGTH])))
            turns.append((index, events))
    return turns


@pytest.mark.parametrize("num_choices", [1, 3])
@pytest.mark.parametrize("seed", range(10))
def test_what_was_said_is_read_and_when_words_break_off_what_was_said_before(seed: int, num_choices: int) -> None:
    turns, speech, words = said(seed, num_choices), Speech(), list[int]()
    heard = [list[TokenEvent]() for _ in range(num_choices)]
    for index, events in turns:
        words += speech.words(index, events)
        heard[index] += events
    outputs = read_words(words, num_choices)
    assert [output.events("") for output in outputs] == heard
    again = Speech()
    copied = [word for index, output in enumerate(outputs) for word in again.output_words(index, output)]
    assert read_words(copied, num_choices) == outputs
    for end in range(len(words)):
        for output, events in zip(read_words(words[:end], num_choices), heard, strict=True):
            parts = [(event.token_id, event.finish_reason) for event in output.events("")]
            assert parts == [(event.token_id, event.finish_reason) for event in events][: len(parts)]


def test_an_end_that_says_that_something_broke_is_not_kept() -> None:
    events = [TokenEvent("", 7, PREFIX), TokenEvent("", None, PREFIX, FinishReason.ERROR, error="lost")]
    assert read_words(Speech().words(0, events), 1) == [Output([7], prefix=PREFIX)]
