"""Where the time went, with every figure computed by hand."""

import pytest
from msgspec.structs import replace

from tailrace.telemetry.attribution import Attribution, OpLine, attribute
from tailrace.telemetry.attribution_reading import AttributionReading, OpSums, TimedSteps
from tests.support.attributed import SERVED, at_first, ten_seconds_later


@pytest.fixture
def found() -> Attribution:
    return attribute(at_first(), ten_seconds_later())


def op(found: Attribution, name: str) -> OpLine:
    return next(line for line in found.ops if line.name == name)


def after(**timed: TimedSteps) -> AttributionReading:
    later = ten_seconds_later()
    later.timed = timed
    return later


def test_rates_are_those_of_the_window(found: Attribution) -> None:
    assert found.seconds == 10.0
    assert found.output_tokens_per_s == 400.0
    assert found.prompt_tokens_per_s == 60.0
    assert found.requests_per_s == 2.0
    assert found.steps_per_s == 100.0
    assert found.processes == {"engine": 1.6, "api 0": 0.05}


def test_the_parts_of_the_engine_add_up_to_the_window(found: Attribution) -> None:
    assert found.engine == pytest.approx(
        {"idle": 2.0, "intake": 0.1, "plan": 0.4, "compute": 7.0, "publish": 0.4, "tidy": 0.1}
    )
    assert sum(found.engine.values()) == pytest.approx(found.seconds)
    assert found.busy_s == pytest.approx(8.0)
    assert found.between_steps_s == pytest.approx(1.0)


def test_ops_share_what_was_computed_as_they_share_timed_steps(found: Attribution) -> None:
    assert [line.name for line in found.ops] == ["down", "attention", "between"], "dearest first"
    assert [line.share for line in found.ops] == pytest.approx([0.75, 0.2, 0.05])
    assert [line.seconds for line in found.ops] == pytest.approx([5.25, 1.4, 0.35])
    assert sum(line.seconds for line in found.ops) == pytest.approx(found.engine["compute"])
    assert (found.num_timed_steps, found.is_since_start) == (10.0, False)


def test_an_op_is_held_against_the_nearer_ceiling(found: Attribution) -> None:
    down, attention = op(found, "down").roof, op(found, "attention").roof

    assert (down.bytes_per_s, down.ops_per_s) == pytest.approx((8e9, 2e10))
    assert down.memory_share == pytest.approx(0.8)  # a step reads 2.6 GB: of 10 GB/s
    assert down.arithmetic_share == pytest.approx(0.1)  # 4 rows are too few for matrix units: of 200 Gop/s
    assert down.binds == "memory"
    assert down.share == down.memory_share
    assert attention.memory_share == pytest.approx(0.25)
    assert attention.arithmetic_share == pytest.approx(0.5)  # it multiplies bfloat16: of 100 Gop/s
    assert attention.binds == "arithmetic"


def test_what_lies_between_ops_moves_and_multiplies_nothing(found: Attribution) -> None:
    roof = op(found, "between").roof
    assert (roof.bytes_per_s, roof.ops_per_s, roof.share) == (0.0, 0.0, 0.0)


def test_the_whole_is_what_all_ops_would_have_taken_at_the_ceilings(found: Attribution) -> None:
    assert found.whole is not None
    assert found.whole.memory_share == pytest.approx((2.4 + 0.2) / 4.0)
    assert found.whole.arithmetic_share == pytest.approx((0.3 + 0.4) / 4.0)
    assert found.whole.binds == "memory"


def test_steps_with_prompts_are_held_against_matrix_units_and_small_ones_against_caches() -> None:
    found = attribute(at_first(), after(prompt=TimedSteps(1.0, 1.0, {"down": OpSums(1.0, 1e8, 5e11)})))
    roof = op(found, "down").roof

    assert roof.arithmetic_share == pytest.approx(0.5)  # of 1 Top/s
    assert roof.memory_share == pytest.approx(1e8 / 1e11)  # 100 MB lie in the cache


def test_many_sequences_are_enough_for_matrix_units() -> None:
    later = after(decode=TimedSteps(6.0, 2.0, {"down": OpSums(2.0, 1e9, 5e11 + 1e9)}))
    later.num_output_tokens = 1000.0 + 16 * 1000
    assert op(attribute(at_first(), later), "down").roof.arithmetic_share == pytest.approx(0.5)


def test_weights_that_are_kept_as_floats_have_the_peak_of_floats() -> None:
    later = after(prompt=TimedSteps(1.0, 1.0, {"down": OpSums(1.0, 1e8, 2.5e10), "route": OpSums(1.0, 0.0, 2.5e10)}))
    later.served = replace(SERVED, weight_numbers="bf16")
    found = attribute(at_first(), later)
    assert op(found, "down").roof.arithmetic_share == pytest.approx(0.25)
    assert op(found, "route").roof.arithmetic_share == pytest.approx(0.5)


def test_without_ceilings_rates_remain() -> None:
    later = ten_seconds_later()
    later.served = replace(SERVED, ceilings=None)
    found = attribute(at_first(), later)

    roof = op(found, "down").roof
    assert (roof.bytes_per_s, roof.memory_share, roof.binds, roof.share) == (8e9, None, None, None)
    assert found.whole is not None
    assert found.whole.binds is None


def test_a_window_without_timed_steps_shows_those_before() -> None:
    later = ten_seconds_later()
    later.timed = at_first().timed
    found = attribute(at_first(), later)
    assert (found.is_since_start, found.num_timed_steps) == (True, 5.0)
    assert op(found, "down").seconds == pytest.approx(7.0)


def test_a_server_that_has_done_nothing_has_no_ops() -> None:
    found = attribute(at_first(), after())
    assert (found.ops, found.whole, found.num_timed_steps) == ((), None, 0.0)


def test_the_first_token_and_the_way_of_the_others_are_means(found: Attribution) -> None:
    assert found.first_token == pytest.approx({"queue": 0.1, "prefill": 0.05})
    assert found.first_token_s == pytest.approx(0.15)
    assert {line.name: line.seconds_per_token for line in found.path} == pytest.approx({"ring": 1e-4, "text": 1e-4})
    assert [line.num_tokens for line in found.path] == [2000.0, 1000.0]


def test_nobody_came_is_no_mean() -> None:
    later = ten_seconds_later()
    later.num_first_tokens = at_first().num_first_tokens
    assert attribute(at_first(), later).first_token == {}
