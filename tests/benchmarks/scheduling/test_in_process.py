from dataclasses import replace

import pytest

from benchmarks.scheduling.in_process import InProcess, Settled
from tailrace.errors import RefusalReason
from tailrace.measure.simulation.arrivals import Arrival

ARRIVALS = [
    Arrival(f"r{number}", 0.001 * number, 12, 3, ("gold", "silver", "bronze")[number % 3], "t") for number in range(9)
]


@pytest.mark.parametrize("is_first_come", [False, True])
def test_every_request_gets_its_tokens_after_it_was_due(tiny: Settled, is_first_come: bool) -> None:
    engine = InProcess(tiny, is_first_come=is_first_come)
    outcome = engine.run(ARRIVALS, say=lambda text: None)
    for one in outcome.served.values():
        assert one.is_complete
        assert len(one.token_s) == 3
        assert one.arrival.at_s < one.token_s[0] < one.token_s[-1]
    assert outcome.num_steps == len(engine.steps) >= 3
    assert outcome.num_tokens >= 9 * (12 + 2)
    assert outcome.num_held_blocks_s > 0.0


def test_an_engine_serves_one_workload_after_the_other(tiny: Settled) -> None:
    engine = InProcess(tiny)
    for _ in range(2):
        assert all(one.is_complete for one in engine.run(ARRIVALS, say=lambda text: None).served.values())


def test_who_finds_the_queue_full_is_refused(tiny: Settled) -> None:
    engine = InProcess(replace(tiny, config=replace(tiny.config, max_queued=2)))
    engine.begin(ARRIVALS)
    for arrival in ARRIVALS[:3]:
        engine.submit(arrival)
    assert engine.outcome.served["r2"].refused_for is RefusalReason.QUEUE_FULL
    assert engine.outcome.served["r1"].refused_for is None
