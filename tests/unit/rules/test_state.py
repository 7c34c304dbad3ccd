"""A rule takes its time to fire and its time to clear, on a fake clock."""

from hypothesis import given
from hypothesis import strategies as st

from tailrace.rules.rule import Rule, Side, Signal
from tailrace.rules.state import Change, RuleState, State

FOR_S, CLEAR_S = 30.0, 20.0
RULE = Rule("slow", Signal.HIT_RATE, "redis", Side.BELOW, 0.6, for_s=FOR_S, clear_at=0.7, clear_for_s=CLEAR_S)
BAD, BETWEEN, GOOD = 0.1, 0.65, 0.9


def played(*looks: tuple[float, float | None]) -> list[tuple[State, Change | None]]:
    state = RuleState(RULE, 0.0)
    shown = []
    for now_s, value in looks:
        change = state.look(value, now_s)
        shown.append((state.state, change))
    return shown


def test_it_fires_after_its_duration_of_trouble_and_not_before() -> None:
    assert played((0, GOOD), (1, BAD), (30, BAD), (31, BAD)) == [
        (State.QUIET, None),
        (State.PENDING, None),
        (State.PENDING, None),
        (State.FIRING, Change.FIRED),
    ]


def test_a_moment_without_trouble_begins_the_duration_anew() -> None:
    assert [state for state, _ in played((0, BAD), (29, BETWEEN), (30, BAD), (59, BAD), (60, BAD))] == [
        State.PENDING,
        State.QUIET,
        State.PENDING,
        State.PENDING,
        State.FIRING,
    ]


def test_it_clears_after_it_was_well_for_its_duration_and_not_at_the_threshold() -> None:
    looks = ((0, BAD), (30, BAD), (31, BETWEEN), (60, BETWEEN), (61, GOOD), (70, BETWEEN), (71, GOOD), (91, GOOD))
    assert played(*looks)[2:] == [
        (State.FIRING, None),
        (State.FIRING, None),
        (State.CLEARING, None),
        (State.FIRING, None),
        (State.CLEARING, None),
        (State.QUIET, Change.CLEARED),
    ]


def test_what_is_not_known_is_no_trouble() -> None:
    assert [state for state, _ in played((0, BAD), (29, None), (30, BAD), (60, BAD), (61, None), (81, None))] == [
        State.PENDING,
        State.QUIET,
        State.PENDING,
        State.FIRING,
        State.CLEARING,
        State.QUIET,
    ]


def test_it_says_when_it_clears_at_the_earliest() -> None:
    state = RuleState(RULE, 0.0)
    state.look(BAD, 0.0)
    state.look(BAD, 30.0)
    assert state.clears_at_s(100.0) == 120.0
    state.look(GOOD, 105.0)
    assert state.clears_at_s(110.0) == 125.0


def test_a_signal_above_its_threshold_is_trouble_where_the_rule_says_above() -> None:
    rule = Rule("late", Signal.TTFT_P99, "gold", Side.ABOVE, 1.0, for_s=1, clear_at=0.9, clear_for_s=1)
    state = RuleState(rule, 0.0)
    changes = [state.look(value, now_s) for now_s, value in enumerate([1.0, 1.1, 1.1, 0.95, 0.9, 0.9])]
    assert changes == [None, None, Change.FIRED, None, None, Change.CLEARED]


STEPS = st.lists(st.tuples(st.floats(0.01, 40.0), st.sampled_from([BAD, BETWEEN, GOOD, None])), min_size=1, max_size=60)


@given(STEPS)
def test_it_never_fires_or_clears_before_its_time_whatever_the_signal_does(steps: list[tuple[float, float]]) -> None:
    state, now_s, changed_s = RuleState(RULE, 0.0), 0.0, 0.0
    trouble_since_s: float | None = None
    well_since_s: float | None = None
    for wait_s, value in steps:
        now_s += wait_s
        is_trouble, is_well = value is not None and value < 0.6, value is None or value >= 0.7
        trouble_since_s = (now_s if trouble_since_s is None else trouble_since_s) if is_trouble else None
        well_since_s = (now_s if well_since_s is None else well_since_s) if is_well else None
        held = state.holds
        change = state.look(value, now_s)
        assert state.holds is (change is Change.FIRED or (held and change is not Change.CLEARED))
        if change is Change.FIRED:
            assert not held
            assert trouble_since_s is not None
            assert now_s - max(trouble_since_s, changed_s) >= FOR_S
        if change is Change.CLEARED:
            assert held
            assert well_since_s is not None
            assert now_s - max(well_since_s, changed_s) >= CLEAR_S
        if change is not None:
            changed_s = now_s
