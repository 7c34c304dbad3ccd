"""The styles of calls, as a whole."""

import random
import re

import pytest

from tailrace.service.parsing.segments import AnswerPiece
from tailrace.service.parsing.tools import TOOL_STYLES, call_markers, call_markup, call_stage
from tests.support.call_texts import well_formed


@pytest.mark.parametrize("style", TOOL_STYLES)
def test_each_style_passes_plain_text_at_once(style: str) -> None:
    stage = call_stage(style)
    assert stage.feed("Hello, world. 1 < 2") == [AnswerPiece("Hello, world. 1 < 2")]
    assert stage.num_held == 0
    assert stage.finish() == []


@pytest.mark.parametrize("style", TOOL_STYLES)
def test_what_calls_begin_with_is_no_text(style: str) -> None:
    for marker in call_markers(style):
        stage = call_stage(style)
        assert stage.feed("a" + marker) == [AnswerPiece("a")]
        assert stage.finish() == []


@pytest.mark.parametrize("style", TOOL_STYLES)
def test_all_markup_of_an_answer_is_known(style: str) -> None:
    answer = well_formed(random.Random(1), style)[0]
    tokens = set(re.findall(r"<[｜|][^<>｜|]+[｜|]>|｜DSML｜|</?tool_call>", answer))
    assert tokens or style == "llama3"
    assert all(any(token in markup for markup in call_markup(style)) for token in tokens)
    assert set(call_markers(style)) <= set(call_markup(style))
