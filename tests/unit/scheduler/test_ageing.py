from hypothesis import given
from hypothesis import strategies as st

from tailrace.scheduler.ageing import Cohorts, LongestWait

WINDOW_S, SLOT_S = 60.0, 1.0


def test_without_any_wait_the_longest_is_none() -> None:
    assert LongestWait().at(100.0) == 0.0


def test_a_longer_wait_counts_at_once_and_a_shorter_one_when_the_longer_is_long_past() -> None:
    longest = LongestWait()
    longest.observe(5.0, 100.0)
    longest.observe(9.0, 110.0)
    longest.observe(2.0, 130.0)
    assert longest.at(168.0) == 9.0
    assert longest.at(172.0) == 2.0
    assert longest.at(192.0) == 0.0


@given(st.lists(st.tuples(st.floats(0.0, 5.0), st.floats(0.0, 100.0)), max_size=200))
def test_it_is_the_longest_of_a_window_to_a_slot(waits: list[tuple[float, float]]) -> None:
    """Of waits that ended one after the other; what ended just about a window ago may count or not."""
    longest = LongestWait(WINDOW_S)
    now_s, ended = 0.0, list[tuple[float, float]]()
    for after_s, wait_s in waits:
        now_s += after_s
        longest.observe(wait_s, now_s)
        ended.append((now_s, wait_s))
        least = max(wait for at_s, wait in ended if now_s - at_s <= WINDOW_S - SLOT_S)
        most = max(wait for at_s, wait in ended if now_s - at_s <= WINDOW_S + SLOT_S)
        assert least <= longest.at(now_s) <= most
        assert len(longest._longest) <= WINDOW_S / SLOT_S + 1


def test_a_cohort_lasts_an_eighth_of_the_longest_wait() -> None:
    cohorts = Cohorts()
    assert [cohorts.of(at_s, 8.0) for at_s in (10.0, 10.9, 11.0, 11.5, 13.2)] == [10.0, 10.0, 11.0, 11.0, 13.2]


def test_who_comes_back_belongs_where_it_did_though_waits_are_shorter_now() -> None:
    cohorts = Cohorts()
    for at_s in (10.0, 14.0):
        cohorts.of(at_s, 32.0)
    assert cohorts.of(13.0, 0.1) == 10.0


def test_nobody_is_younger_than_he_is_when_his_cohort_is_forgotten() -> None:
    cohorts = Cohorts()
    for number in range(10_000):
        cohorts.of(float(number), 8.0)
    assert len(cohorts._starts_s) <= 2_048
    assert cohorts.of(5.5, 8.0) == 5.5
    assert cohorts.of(9_000.5, 8.0) == 9_000.0


@given(st.lists(st.tuples(st.floats(-3.0, 3.0), st.floats(0.1, 50.0)), max_size=60))
def test_who_came_earlier_is_never_in_a_later_cohort(steps: list[tuple[float, float]]) -> None:
    cohorts = Cohorts()
    arrival_s = 0.0
    members = []
    for after_s, longest_s in steps:
        arrival_s += after_s
        members.append((arrival_s, cohorts.of(arrival_s, longest_s)))
    members.sort()
    starts_s = [start_s for _, start_s in members]
    assert all(start_s <= at_s for at_s, start_s in members)
    assert starts_s == sorted(starts_s)
