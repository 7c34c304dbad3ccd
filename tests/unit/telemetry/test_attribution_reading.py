"""What a server says of its time is what its metrics count, by name."""

import os

import msgspec

from tailrace.records import StepProfile
from tailrace.telemetry.attribution_reading import AttributionReading, OpSums, host_name, read_attribution
from tailrace.telemetry.prometheus import Metrics
from tailrace.telemetry.readings import Reading
from tailrace.types import OpTime
from tests.support.attributed import SERVED, at_first


def test_sums_are_those_of_all_processes() -> None:
    engine = Metrics(model_name="m", version="0", process="engine")
    engine.engine_time.watch(lambda: {"idle": 3.0, "compute": 2.0})
    whole = Metrics(model_name="m", version="0", process="api 0").with_others([engine.snapshot()])
    reading = read_attribution(Reading(1.0, whole.samples()), SERVED)

    assert reading.served == SERVED
    assert reading.at_s == 1.0
    assert reading.engine_pid == os.getpid()
    assert reading.engine_seconds == {
        "idle": 3.0,
        "intake": 0.0,
        "plan": 0.0,
        "compute": 2.0,
        "publish": 0.0,
        "tidy": 0.0,
    }
    assert set(reading.process_seconds) == {"engine", "api 0"}
    assert (reading.num_steps, reading.num_output_tokens, reading.num_requests) == (0.0, 0.0, 0.0)


def test_timed_steps_and_the_ways_of_tokens_are_told_apart() -> None:
    metrics = Metrics(model_name="m", version="0", process="engine")
    ops = (OpTime("down", 0.25, 1e6, 2e6), OpTime("head", 0.5, 3e6, 4e6))
    metrics.record(StepProfile(0, 1.0, ops))
    metrics.record(StepProfile(64, 2.0, ops, has_prompts=True))
    metrics.record(StepProfile(128, 2.0, ops, has_prompts=True))
    reading = read_attribution(Reading(1.0, metrics.samples()), SERVED)

    assert (reading.timed["decode"].num_steps, reading.timed["decode"].seconds) == (1.0, 1.0)
    assert (reading.timed["prompt"].num_steps, reading.timed["prompt"].seconds) == (2.0, 4.0)
    assert reading.timed["decode"].ops["down"] == OpSums(0.25, 1e6, 2e6)
    assert reading.timed["prompt"].ops["head"] == OpSums(1.0, 6e6, 8e6)
    assert reading.timed["prompt"].ops["between"].seconds == 2.5
    assert set(reading.token_path) == {"ring", "text", "write", "client"}
    assert {"accept", "queue", "prefill", "write"} <= set(reading.first_token_seconds)


def test_a_server_without_an_engine_has_no_number_of_it() -> None:
    alone = Metrics(model_name="m", version="0", process="api 0")
    assert read_attribution(Reading(1.0, alone.samples()), SERVED).engine_pid is None


def test_it_comes_through_json_as_it_was() -> None:
    reading = at_first()
    assert msgspec.json.decode(msgspec.json.encode(reading), type=AttributionReading) == reading


def test_processes_of_one_machine_know_each_other() -> None:
    assert host_name() == host_name()
    assert len(host_name()) == 16
