"""The styles of calls, as a whole."""

import pytest

from tailrace.service.parsing.segments import AnswerPiece
from tailrace.service.parsing.tools import TOOL_STYLES, call_markers, call_stage


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
