from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.bench.exchange import WireError
from tailrace.bench.sse import MAX_EVENT_BYTES, EventParser

STREAM = (
    b": keep-alive\n\nevent: message\nid: 7\ndata: one\n\ndata:two\r\n\r\n\n\ndata: a\ndata: b\n\ndata: unfinished\n"
)
EVENTS = [b"one", b"two", b"a\nb"]


def test_an_event_is_its_data_lines_and_ends_at_a_blank_line() -> None:
    assert EventParser().feed(STREAM) == EVENTS


@settings(max_examples=60)
@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_events_are_the_same_wherever_the_stream_is_cut(cuts: list[int]) -> None:
    bounds = [0, *sorted(cuts), len(STREAM)]
    parser = EventParser()

    events = [event for start, end in pairwise(bounds) for event in parser.feed(STREAM[start:end])]

    assert events == EVENTS


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_an_endless_event_is_refused(end: bytes) -> None:
    parser = EventParser()
    piece = b"data: " + b"x" * (MAX_EVENT_BYTES // 2) + end

    assert parser.feed(piece) == []
    with pytest.raises(WireError, match="longer than 8 MiB"):
        parser.feed(piece)
