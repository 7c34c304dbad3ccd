import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.scheduler.nearly_sorted import NearlySorted

Number = tuple[int]


@given(st.lists(st.integers(0, 20), max_size=80))
def test_it_is_what_a_sorted_list_is(numbers: list[int]) -> None:
    """A number that is there goes, one that is not comes."""
    found: NearlySorted[Number] = NearlySorted()
    expected: set[Number] = set()
    for number in numbers:
        if (number,) in expected:
            expected.remove((number,))
            found.remove((number,))
        else:
            expected.add((number,))
            found.add((number,))
        assert list(found) == sorted(expected)
        assert len(found) == len(expected)
        if expected:
            assert found.first == min(expected)


def test_who_comes_back_is_first_again() -> None:
    numbers: NearlySorted[Number] = NearlySorted()
    for number in (2, 4, 1, 3):
        numbers.add((number,))
    order = []
    while numbers:
        order.append(numbers.first)
        numbers.remove(numbers.first)
    assert order == [(1,), (2,), (3,), (4,)]


def test_what_is_not_there_cannot_be_taken_out() -> None:
    numbers: NearlySorted[Number] = NearlySorted()
    numbers.add((1,))
    with pytest.raises((AssertionError, IndexError)):
        numbers.remove((0,))
