"""Planning memory: what lives at once never overlaps, what does not is shared."""

from hypothesis import given
from hypothesis import strategies as st

from tailrace.ops.cpu.buffers import Lifetime, plan_offsets

lifetimes = st.builds(
    lambda num_bytes, first, length: Lifetime(num_bytes, first, first + length),
    st.integers(1, 1000),
    st.integers(0, 20),
    st.integers(0, 10),
)


@given(st.lists(lifetimes, max_size=30))
def test_buffers_that_live_at_once_do_not_overlap(wanted: list[Lifetime]) -> None:
    offsets, total = plan_offsets(wanted)
    placed = list(zip(wanted, offsets, strict=True))

    for index, (one, start) in enumerate(placed):
        assert start % 64 == 0
        assert start + one.num_bytes <= total
        for other, other_start in placed[:index]:
            live_at_once = one.first <= other.last and other.first <= one.last
            apart = start + one.num_bytes <= other_start or other_start + other.num_bytes <= start
            assert apart or not live_at_once


def test_a_chain_of_stages_needs_two_buffers() -> None:
    _, total = plan_offsets(Lifetime(640, stage, stage + 1) for stage in range(50))

    assert total == 2 * 640


def test_small_buffers_fill_gaps() -> None:
    offsets, total = plan_offsets([Lifetime(640, 0, 1), Lifetime(64, 1, 9), Lifetime(640, 2, 9)])

    assert total == 704
    assert offsets[0] == offsets[2]


def test_nothing_needs_no_memory() -> None:
    assert plan_offsets([]) == ((), 0)
