"""A life is cut into parts without a gap, whatever of it there is."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tailrace.telemetry.life_parts import FIRST_TOKEN_PARTS, parts_of
from tailrace.telemetry.lives import RequestLife
from tailrace.types import Beginning, PromptChunk

BEGINNING = Beginning(
    taken_s=1.0,
    started_s=5.0,
    computed_s=9.0,
    fetch_s=1.5,
    chunks=(PromptChunk(5.0, 6.0, 128), PromptChunk(8.0, 9.0, 40)),
)


def _life(**marks: object) -> RequestLife:
    life = RequestLife(request_id="r", endpoint="chat", class_name="gold", accepted_s=0.0)
    for name, value in marks.items():
        setattr(life, name, value)
    return life


def test_a_whole_life() -> None:
    life = _life(
        parsed_s=0.25,
        submitted_s=0.75,
        beginning=BEGINNING,
        received_s=9.5,
        text_s=9.75,
        written_s=10.0,
        ended_s=14.0,
    )
    assert parts_of(life) == [
        ("accept", 0.0, 0.25, 0),
        ("tokenise", 0.25, 0.75, 0),
        ("to_engine", 0.75, 1.0, 0),
        ("queue", 1.0, 3.5, 0),
        ("fetch", 3.5, 5.0, 0),
        ("prefill", 5.0, 6.0, 128),
        ("between", 6.0, 8.0, 0),
        ("prefill", 8.0, 9.0, 40),
        ("from_engine", 9.0, 9.5, 0),
        ("text", 9.5, 9.75, 0),
        ("write", 9.75, 10.0, 0),
        ("decode", 10.0, 14.0, 0),
    ]


def test_one_that_was_refused_ends_in_the_part_it_was_in() -> None:
    assert parts_of(_life(ended_s=0.5)) == [("accept", 0.0, 0.5, 0)]
    assert parts_of(_life(parsed_s=0.25, submitted_s=0.75, ended_s=3.0))[-1] == ("queue", 0.75, 3.0, 0)


def test_one_under_way_has_the_parts_that_are_over() -> None:
    assert parts_of(_life()) == []
    assert parts_of(_life(parsed_s=0.25)) == [("accept", 0.0, 0.25, 0)]
    assert [part.name for part in parts_of(_life(parsed_s=0.25, submitted_s=0.75, beginning=BEGINNING))] == [
        "accept",
        "tokenise",
        "to_engine",
        "queue",
        "fetch",
        "prefill",
        "between",
        "prefill",
    ]


MARKS = ("parsed_s", "submitted_s", "received_s", "text_s", "written_s", "ended_s")


@given(st.dictionaries(st.sampled_from(MARKS), st.floats(0.0, 20.0)), st.booleans())
def test_parts_follow_one_another_without_a_gap(marks: dict[str, float], has_begun: bool) -> None:
    parts = parts_of(_life(**marks, beginning=BEGINNING if has_begun else None))
    assert all(one.end_s == next_one.start_s for one, next_one in pairwise(parts))
    assert all(part.end_s > part.start_s for part in parts)
    assert all(part.start_s == 0.0 for part in parts[:1])
    assert {part.name for part in parts} <= {*FIRST_TOKEN_PARTS, "decode"}
