"""Whatever a model writes, in whatever pieces: what the parsers of calls make of it, and how much work that is."""

import json
import random
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.service.parsing.segments import Stage
from tailrace.service.parsing.tools import TOOL_STYLES, call_stage
from tests.support.call_texts import check_any_parse, cut, damaged, fragments, well_formed
from tests.support.calls import parsed

SEEDS = st.integers(0, 2**32).map(random.Random)


@pytest.mark.parametrize("style", TOOL_STYLES)
@settings(max_examples=40, deadline=None)
@given(chance=SEEDS)
def test_calls_come_out_as_they_were_meant(style: str, chance: random.Random) -> None:
    answer, said, calls = well_formed(chance, style)
    parts = parsed(style, *cut(chance, answer))
    assert [part for part in parts if isinstance(part, str)] == [said] * bool(said)
    assert [(part[0], json.loads(part[1])) for part in parts if not isinstance(part, str)] == calls
    check_any_parse(style, answer, cut(chance, answer))


@pytest.mark.parametrize("style", TOOL_STYLES)
@pytest.mark.parametrize("write", [damaged, fragments])
@settings(max_examples=40, deadline=None)
@given(chance=SEEDS)
def test_nothing_is_lost_of_other_answers(
    style: str, write: Callable[[random.Random, str], str], chance: random.Random
) -> None:
    answer = write(chance, style)
    check_any_parse(style, answer, cut(chance, answer))


CALL, SEP = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>"
OPEN_VALUE = '<｜DSML｜invoke name="f"><｜DSML｜parameter name="p" string="true">'
# Each could be read again and again by a parser that begins anew at each marker, or at each piece.
HARD: dict[str, tuple[str, str, str]] = {
    "v3 headers": ("deepseek_v3", "", f"{CALL}function{SEP}"),
    "v3 fences": ("deepseek_v3", f"{CALL}function{SEP}f\n", "\n``"),
    "v31 names": ("deepseek_v31", "", CALL + "n" * 255),
    "tags in a tag": ("deepseek_v4", "", '<｜DSML｜invoke ">"'),
    "begun ends of values": ("deepseek_v4", OPEN_VALUE, "</｜DSML｜param"),
    "hermes tags": ("hermes", "", "<tool_call>"),
    "objects that fail": ("hermes", "", '<tool_call>{"":"","":"'),
    "tags in a string": ("hermes", '<tool_call>{"arguments": "', "<tool_call>"),
    "keys": ("hermes", "<tool_call>{", '"a":1,'),
    "depth": ("hermes", '<tool_call>{"arguments": ', "["),
    "escapes": ("hermes", '<tool_call>{"name": "f", "arguments": "', "\\ud83d"),
    "objects": ("llama3", "", '{"name": "f", "parameters": {}};'),
}


@pytest.mark.parametrize(("style", "beginning", "repeated"), HARD.values(), ids=HARD)
def test_work_and_memory_grow_no_faster_than_the_text(style: str, beginning: str, repeated: str) -> None:
    def work(num_characters: int, piece: int) -> int:
        text = (beginning + repeated * (num_characters // len(repeated) + 1))[:num_characters]
        return _steps(call_stage(style), [text[at : at + piece] for at in range(0, len(text), piece)])

    for piece in (1, 700):
        begin, short, long = (work(1000 * size, piece) for size in (1, 3, 7))
        assert long - begin <= 3.3 * (short - begin) + 500, (begin, short, long)


@pytest.mark.parametrize(("style", "beginning", "repeated"), HARD.values(), ids=HARD)
def test_a_long_text_is_held_within_bounds(style: str, beginning: str, repeated: str) -> None:
    text = (beginning + repeated * (200_000 // len(repeated) + 1))[:200_000]
    stage = call_stage(style)
    most = 0
    for at in range(0, len(text), 5_000):
        stage.feed(text[at : at + 5_000])
        most = max(most, stage.num_held)
    stage.finish()
    assert most <= 1 << 17


def _steps(stage: Stage, pieces: list[str]) -> int:
    """Lines of the parsers that run: each looks at a bounded piece of text, once."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace if _is_parser(frame.f_code) else None

    sys.settrace(trace)
    try:
        for piece in pieces:
            stage.feed(piece)
        stage.finish()
    finally:
        sys.settrace(None)
    return count


def _is_parser(code: CodeType) -> bool:
    return "/service/parsing/" in code.co_filename
