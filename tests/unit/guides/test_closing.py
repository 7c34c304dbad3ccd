import itertools

import pytest

from tailrace.errors import GuideError
from tailrace.guides.closing import Closer
from tests.unit.guides.small_vocabulary import small_vocabulary


def test_a_search_that_takes_too_long_is_given_up() -> None:
    words = small_vocabulary()
    matcher = words.compile_bytewise('start: "a" "b" "c"')
    seconds = itertools.count()
    with pytest.raises(GuideError, match="too complex"):
        Closer(words, (), clock=lambda: float(next(seconds))).find(matcher, 100)

    first = words.first_byte_id
    assert Closer(words, (), clock=lambda: 0.0).find(matcher, 100) == tuple(first + byte for byte in b"abc")
