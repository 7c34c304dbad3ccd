from hypothesis import given
from hypothesis import strategies as st

from tailrace.kvcache.fragmentation import longest_free_run


@given(st.lists(st.integers(0, 1), max_size=60).map(bytes))
def test_the_longest_run_is_found(is_touched: bytes) -> None:
    assert longest_free_run(is_touched) == max(map(len, is_touched.split(b"\1")))
