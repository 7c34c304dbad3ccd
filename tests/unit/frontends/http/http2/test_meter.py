"""What received frames cost, however they are cut into pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.frontends.http.http2.limits import Allowance
from tailrace.frontends.http.http2.meter import FrameMeter, FrameTooLong

FRAMES = st.lists(st.tuples(st.integers(0, 10), st.integers(0, 600)))


def frame(kind: int, length: int) -> bytes:
    return length.to_bytes(3) + bytes((kind, 0, 0, 0, 0, 1)) + bytes(length)


def price(kind: int, length: int) -> float:
    if kind == 3:
        return 8
    return 0 if kind == 0 and length >= 256 else 1


@given(FRAMES, st.integers(1, 700))
def test_cuts_change_no_price(frames: list[tuple[int, int]], piece: int) -> None:
    data = b"\xff" * 24 + b"".join(frame(*each) for each in frames)
    meter = FrameMeter(24)
    total = sum(meter.cost(data[start : start + piece]) for start in range(0, len(data), piece))
    assert total == sum(price(*each) for each in frames)


def test_the_longest_frame_passes_and_a_longer_one_does_not() -> None:
    meter = FrameMeter(0)
    assert meter.cost(frame(0, 16384)) == 0
    with pytest.raises(FrameTooLong, match="16385"):
        meter.cost(frame(0, 16385)[:9])


def test_an_allowance_is_spent_and_comes_back_with_time_up_to_a_burst() -> None:
    allowance = Allowance(0.0)
    assert allowance.spend(2000, 0.0)
    assert not allowance.spend(1, 0.0)
    assert allowance.spend(100, 1.0)
    assert not allowance.spend(2001, 1000.0)


def test_answers_earn_allowance() -> None:
    allowance = Allowance(0.0)
    allowance.spend(2000, 0.0)
    allowance.earn(10)
    assert allowance.spend(10, 0.0)
