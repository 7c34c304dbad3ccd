"""What a server says of its time is what its metrics count, by name."""

import os

import msgspec

from tailrace.telemetry.attribution_reading import AttributionReading, host_name, read_attribution
from tailrace.telemetry.prometheus import Metrics
from tests.support.attributed import SERVED, at_first


def test_sums_are_those_of_all_processes() -> None:
    engine = Metrics(model_name="m", version="0", process="engine")
    engine.engine_time.watch(lambda: {"idle": 3.0, "compute": 2.0})
    whole = Metrics(model_name="m", version="0", process="api 0").with_others([engine.snapshot()])
    reading = read_attribution(whole, SERVED)

    assert reading.served == SERVED
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


def test_a_server_without_an_engine_has_no_number_of_it() -> None:
    assert read_attribution(Metrics(model_name="m", version="0", process="api 0"), SERVED).engine_pid is None


def test_it_comes_through_json_as_it_was() -> None:
    reading = at_first()
    assert msgspec.json.decode(msgspec.json.encode(reading), type=AttributionReading) == reading


def test_processes_of_one_machine_know_each_other() -> None:
    assert host_name() == host_name()
    assert len(host_name()) == 16
