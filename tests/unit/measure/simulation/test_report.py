import pytest

from tailrace.classes import ServiceClass, ServiceClasses
from tailrace.errors import RefusalReason
from tailrace.measure.simulation.arrivals import Arrival
from tailrace.measure.simulation.outcome import Outcome, Served
from tailrace.measure.simulation.report import make_report

CLASSES = ServiceClasses(
    (
        ServiceClass("gold", 2.0, ttft_s=1.0, itl_s=0.1, min_share=0.0, queue_ttl_s=9.0),
        ServiceClass("bronze", 1.0, ttft_s=5.0, itl_s=0.5, min_share=0.0, queue_ttl_s=9.0),
    ),
    "gold",
)


def _served(name: str, class_name: str, *token_s: float, at_s: float = 0.0) -> Served:
    arrival = Arrival(name, at_s, 10, len(token_s) or 1, class_name)
    return Served(arrival, list(token_s), is_complete=bool(token_s))


def _run(*served: Served) -> Outcome:
    return Outcome(
        {one.arrival.request_id: one for one in served},
        num_steps=4,
        busy_s=8.0,
        num_tokens=40,
        num_padding_tokens=10,
        num_held_blocks_s=16.0,
        num_blocks_total=8,
    )


def test_totals_are_over_the_time_from_the_first_arrival_to_the_last_token() -> None:
    report = make_report("p", _run(_served("a", "gold", 1.5, 1.6, at_s=1.0), _served("b", "gold", 11.0)), CLASSES)
    assert report.duration_s == 11.0
    assert report.requests_per_s == pytest.approx(2 / 11)
    assert report.output_tokens_per_s == pytest.approx(3 / 11)
    assert report.busy_share == pytest.approx(8 / 11)
    assert report.padding_share == 0.25
    assert report.kv_held_share == 0.25
    assert report.token_wait_ms == pytest.approx(1e3 * (0.6 + 11.0) / 3)


def test_a_late_first_token_misses_the_target_of_its_class_and_not_of_another() -> None:
    report = make_report("p", _run(_served("a", "gold", 1.2), _served("b", "bronze", 1.2)), CLASSES)
    gold, bronze = report.classes
    assert (gold.attainment, bronze.attainment) == (0.0, 1.0)
    assert report.goodput == pytest.approx(1 / 1.2)


@pytest.mark.parametrize(("num_late", "is_on_target"), [(1, True), (2, False)])
def test_one_gap_of_twenty_may_be_late(num_late: int, is_on_target: bool) -> None:
    token_s = [0.5]
    for number in range(20):
        token_s.append(token_s[-1] + (0.2 if number < num_late else 0.05))
    gold, _ = make_report("p", _run(_served("a", "gold", *token_s)), CLASSES).classes
    assert gold.num_on_target == is_on_target


def test_who_is_refused_counts_as_come_and_not_on_target() -> None:
    refused = _served("b", "gold")
    refused.refused_for = RefusalReason.TARGET_UNREACHABLE
    report = make_report("p", _run(_served("a", "gold", 0.5), refused), CLASSES)
    assert report.classes[0].attainment == 0.5
    assert report.refused == {"target_unreachable": 1}
    assert report.to_dict()["classes"][0]["refused"] == {"target_unreachable": 1}


def test_a_class_that_did_not_come_has_no_attainment() -> None:
    _, bronze = make_report("p", _run(_served("a", "gold", 0.5)), CLASSES).classes
    assert bronze.attainment is None


def test_the_error_of_what_was_told_is_relative_to_what_came() -> None:
    one = _served("a", "gold", 2.0)
    one.predicted_ttft_s = 3.0
    assert make_report("p", _run(one), CLASSES).ttft_error == pytest.approx(0.5)


def test_a_run_in_which_nobody_was_served_has_figures_too() -> None:
    report = make_report("p", _run(_served("a", "gold")), CLASSES)
    assert report.requests_per_s == 0.0
    assert report.token_wait_ms is None
    assert report.ttft_ms.p50 is None
