"""What the in-process driver writes becomes the same figures that the load client would compute."""

import json

import pytest

from benchmarks.peers.openvino_engine import load_run
from tailrace.bench.report import RunInfo, make_report
from tailrace.bench.workload import Arrivals, Workload


def answer(sent_s: float, *chunk_s: float) -> dict[str, object]:
    return {
        "sent_s": sent_s,
        "prompt_tokens": 128,
        "chunk_s": chunk_s,
        "output_tokens": len(chunk_s),
        "ended_s": chunk_s[-1],
    }


RESULT = {"started_s": 10.0, "ended_s": 11.0, "answers": [answer(10.0, 10.2, 10.3, 10.5), answer(10.0, 10.4, 11.0)]}


def test_times_and_tokens_become_figures() -> None:
    run = load_run(json.dumps(RESULT).encode())
    report = make_report(RunInfo("in process", "m", Workload(2, 128, 3), Arrivals(2), "2026-11-29"), run, {}, 0.0)
    assert (report.completed, report.input_tokens, report.output_tokens) == (2, 256, 5)
    assert report.duration_s == pytest.approx(1.0)
    assert report.ttft_ms.mean == pytest.approx(300)
    assert report.itl_ms.p50 == pytest.approx(200)
    assert report.peak_in_flight == 2
