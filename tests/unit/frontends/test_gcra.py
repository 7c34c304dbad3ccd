from hypothesis import given
from hypothesis import strategies as st

from tailrace.frontends.gcra import MinuteRate

MINUTE_NS = 60_000_000_000
NOW_NS = 10**15
limits = st.integers(1, 1_000_000_000)


@given(st.integers(1, 500), st.integers(0, 2**62))
def test_a_minutes_worth_may_come_at_once_and_not_one_more(limit: int, now_ns: int) -> None:
    rate, full_ns = MinuteRate(limit), 0
    for left in range(limit, 0, -1):
        assert rate.left(full_ns, now_ns) == left
        assert rate.wait_ns(full_ns, now_ns) == 0
        full_ns = rate.taken(full_ns, now_ns)
    assert rate.left(full_ns, now_ns) == 0
    assert rate.wait_ns(full_ns, now_ns) > 0


@given(limits, st.integers(0, 10**9))
def test_who_waits_as_long_as_was_said_is_let_in_and_nobody_sooner(limit: int, taken: int) -> None:
    rate = MinuteRate(limit)
    full_ns = rate.taken(0, NOW_NS, taken)
    wait_ns = rate.wait_ns(full_ns, NOW_NS)
    assert rate.wait_ns(full_ns, NOW_NS + wait_ns) == 0
    assert wait_ns == 0 or rate.wait_ns(full_ns, NOW_NS + wait_ns - 1) == 1
    assert (rate.left(full_ns, NOW_NS) > 0) == (wait_ns == 0)


@given(limits, st.lists(st.integers(0, MINUTE_NS), max_size=50))
def test_no_minute_has_more_than_twice_the_limit_and_no_long_run_more_than_its_rate(
    limit: int, pauses_ns: list[int]
) -> None:
    rate, full_ns, now_ns, num_taken = MinuteRate(limit), 0, NOW_NS, 0
    for pause_ns in pauses_ns:
        now_ns += pause_ns
        amount = rate.left(full_ns, now_ns)
        full_ns = rate.taken(full_ns, now_ns, amount)
        num_taken += amount
    minutes = sum(pauses_ns) / MINUTE_NS
    rounding = 1 + limit / MINUTE_NS * 1.1
    assert num_taken <= limit * (1 + minutes) * rounding + 1


def test_what_is_taken_beyond_the_limit_is_waited_for() -> None:
    rate = MinuteRate(60)
    full_ns = rate.taken(0, NOW_NS, 150)
    assert rate.wait_ns(full_ns, NOW_NS) == 91_000_000_000  # 90 too many, and one
    assert rate.left(full_ns, NOW_NS + 91_000_000_000) == 1
