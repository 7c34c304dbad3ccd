"""What is measured: that the answers are read as what they are meant to be."""

from collections.abc import Sequence

import pytest

from benchmarks.text.__main__ import make_cases
from tailrace.service.api import ChoiceDelta
from tailrace.service.choice import Choice

CASES = {case.name: case for case in make_cases(400)}


def deltas_of(name: str) -> Sequence[ChoiceDelta]:
    choice = Choice(0, CASES[name].rules)
    return [delta for batch in CASES[name].batches for delta in choice.feed(batch)]


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("calls")])
def test_calls_are_calls_one_after_the_other(name: str) -> None:
    deltas = deltas_of(name)
    calls = [call for delta in deltas for call in delta.calls]
    assert [call.name for call in calls if call.name] == ["get_weather"] * (calls[-1].index + 1)
    assert calls[-1].index > 0
    assert not "".join([delta.text for delta in deltas]).strip()


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("calls")])
def test_prose_is_not_ended_by_a_stop_string(name: str) -> None:
    deltas = deltas_of(name)
    said = "".join([delta.reasoning + delta.text for delta in deltas])
    assert len(said) > 1000
    assert all(bool(delta.reasoning) <= name.startswith("reasoning") for delta in deltas)
    assert deltas[-1].finish_reason is None
