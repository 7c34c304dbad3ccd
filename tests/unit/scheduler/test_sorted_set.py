from bisect import insort

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.scheduler import sorted_set
from tailrace.scheduler.sorted_set import SortedSet

Number = tuple[int]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_set, "MAX_PIECE", 4)


@given(st.lists(st.integers(0, 40), max_size=120))
def test_it_is_what_a_sorted_list_is(numbers: list[int]) -> None:
    """A number that is there goes, one that is not comes."""
    found: SortedSet[Number] = SortedSet()
    expected: list[Number] = []
    for number in numbers:
        if (number,) in expected:
            expected.remove((number,))
            found.remove((number,))
        else:
            insort(expected, (number,))
            found.add((number,))
        assert list(found) == expected
        assert len(found) == len(expected)
        if expected:
            assert (found.first, found.last) == (expected[0], expected[-1])


@pytest.mark.parametrize("missing", [0, 3, 9])
def test_what_is_not_there_cannot_be_taken_out(missing: int) -> None:
    numbers: SortedSet[Number] = SortedSet()
    for number in (1, 2, 4, 5, 6, 7):
        numbers.add((number,))
    with pytest.raises((AssertionError, IndexError)):
        numbers.remove((missing,))
    assert len(list(numbers)) == 6
