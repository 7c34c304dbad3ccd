"""The benchmark of packing runs, and compares the same work in two ways."""

import json
from collections import Counter

import pytest

from benchmarks.scheduling.in_process import Settled
from benchmarks.scheduling.packing import all_cases, compare, main
from benchmarks.scheduling.real_steps import RealSteps, Room

LARGE = Room(num_tokens=24_000, max_model_tokens=4_096)


def test_both_ways_have_the_same_parts_and_as_many_tokens_in_each_step() -> None:
    cases = all_cases(LARGE)
    assert len(cases) == 6
    for case in cases:
        packed, mixed = [Counter(part for shape in shapes for part in shape) for shapes in (case.packed, case.mixed)]
        assert packed == mixed
        steps = (*case.packed, *case.mixed)
        assert len({sum(part.num_tokens for part in shape) for shape in steps}) == 1


def test_what_is_packed_is_alike_and_what_is_mixed_is_not() -> None:
    for case in all_cases(LARGE)[1:]:
        assert all(len(set(shape)) == 1 for shape in case.packed)
        assert all(len(set(shape)) == 2 for shape in case.mixed)


def test_cases_are_measured_on_a_model(tiny: Settled) -> None:
    steps = RealSteps(tiny.model)
    for case in all_cases(steps.room)[:2]:
        found = compare(steps, case, num_rounds=3)
        assert found.low <= found.ratio <= found.high
        assert min(found.packed_ms, found.mixed_ms) > 0.0


def test_findings_come_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--model", "tiny-deepseek", "--rounds", "2", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["cases"][0]["name"] == "same"
    assert found["cases"][1]["ratio"] > 0.0


def test_one_round_is_too_few() -> None:
    with pytest.raises(SystemExit):
        main(["--rounds", "1"])
