from dataclasses import replace

import pytest

from tailrace.measure.report import ShapeReport, decode_report
from tailrace.measure.streams import SteadyDecode

DECODE = SteadyDecode(num_streams=2, context_tokens=100.4, periods_s=[0.03, 0.01, 0.02], read_bytes_per_s=1e11)


def test_times_between_tokens_stand_beside_the_time_that_reading_takes() -> None:
    report = decode_report(DECODE, read_bytes=1e9)

    assert (report.num_streams, report.context_tokens, report.num_steps) == (2, 100, 3)
    assert report.itl_p50_ms == pytest.approx(20)
    assert report.itl_p90_ms == pytest.approx(28)
    assert report.tokens_per_s == pytest.approx(100)
    assert report.floor_ms == pytest.approx(10)
    assert report.floor_ratio == pytest.approx(2)


def test_without_a_rate_of_reading_there_is_no_floor() -> None:
    report = decode_report(replace(DECODE, read_bytes_per_s=None), read_bytes=1e9)
    assert (report.floor_ms, report.floor_ratio) == (None, None)


def test_the_dictionary_holds_the_medians_and_ratios_too() -> None:
    report = ShapeReport(
        name="some",
        weights="int4",
        back_end="cpu bf16",
        num_threads=2,
        parameters=10,
        weight_bytes=7,
        load_s=1.0,
        prompt_tokens=50,
        prefills_ms=[300.0, 100.0, 200.0],
        decodes=[decode_report(DECODE, 1e9)],
    )

    figures = report.to_dict()
    assert (figures["prefill_ms"], figures["prompt_tokens_per_s"]) == (200.0, 250.0)
    assert figures["decodes"][0]["floor_ratio"] == pytest.approx(2)
