import json

import pytest
from rich.console import Console

from tailrace.bench.goodput import parse_objectives
from tailrace.bench.load import LoadRun, Sample
from tailrace.bench.report import Report, RunInfo, make_report
from tailrace.bench.statistics import Spread
from tailrace.bench.stream import Streamed
from tailrace.bench.table import render_report, warnings
from tailrace.bench.workload import Arrivals, Workload

INFO = RunInfo(
    url="http://example:8000",
    model="m",
    workload=Workload(4, 10, 4, 2, "completions", seed=9),
    arrivals=Arrivals(concurrency=2, rate=3.0),
    date="2026-01-01T00:00:00+00:00",
)
# Sent at 1 s; chunks at 1.1, 1.2, 1.4 s; four tokens: TTFT 100 ms, E2EL 400 ms, TPOT 300 / 3 ms, ITL 100 and 200 ms.
STEADY = Streamed(0.001, 1.0, [1.1, 1.2, 1.4], 1.5, prompt_tokens=10, output_tokens=4, cached_tokens=2)
# Sent at 1 s; one chunk at 1.3 s; one token: TTFT and E2EL 300 ms, no TPOT, no ITL.
SINGLE = Streamed(0.003, 1.0, [1.3], 1.6, prompt_tokens=12, output_tokens=1)
# Sent at 2.55 s; chunks at 3.0, 3.1 s; no usage: TTFT 450 ms, E2EL 550 ms, TPOT unknown, ITL 100 ms.
UNCOUNTED = Streamed(0.002, 2.55, [3.0, 3.1], 3.2)
BROKEN = Streamed(0.0, 2.0, [2.1], 2.2, prompt_tokens=10, output_tokens=99, error_kind="timeout", error="too late")


def report(*streams: Streamed, objectives: tuple[str, ...] = ()) -> Report:
    run = LoadRun([Sample(0.25 * turn, streamed) for turn, streamed in enumerate(streams)], started_s=1.0, ended_s=5.0)
    return make_report(INFO, run, parse_objectives(objectives), client_cpu_s=0.5)


def approx(**values: float) -> dict[str, object]:
    return {name: pytest.approx(value) for name, value in values.items()}


def test_latencies_are_what_a_hand_calculation_gives() -> None:
    figures = report(STEADY, SINGLE, UNCOUNTED, BROKEN).to_dict()

    expected = {
        **approx(mean_ttft_ms=850 / 3, median_ttft_ms=300, p95_ttft_ms=435, p99_ttft_ms=447),
        **approx(mean_tpot_ms=100, median_tpot_ms=100, std_tpot_ms=0, p99_tpot_ms=100),
        **approx(mean_itl_ms=400 / 3, median_itl_ms=100, p95_itl_ms=190),
        **approx(mean_e2el_ms=1250 / 3, median_e2el_ms=400, p50_e2el_ms=400),
        **approx(mean_connect_ms=2, mean_client_queue_ms=375, p99_client_queue_ms=742.5),
    }
    assert {name: figures[name] for name in expected} == expected


def test_throughput_counts_the_tokens_of_completed_requests_over_the_whole_run() -> None:
    figures = report(STEADY, SINGLE, UNCOUNTED, BROKEN).to_dict()

    expected = {
        **approx(duration=4, completed=3, failed=1, total_input_tokens=22, total_output_tokens=5),
        **approx(request_throughput=0.75, output_throughput=1.25, total_token_throughput=6.75),
        **approx(total_cached_tokens=2, completed_without_usage=1, tokens_per_chunk=1.25),
        # First second of the run: chunks at 1.1, 1.2, 1.4 with 4/3 tokens each, and one at 1.3 with 1.
        **approx(max_output_tokens_per_s=5, max_concurrent_requests=2, client_cpu_s=0.5),
    }
    assert {name: figures[name] for name in expected} == expected


def test_failures_are_counted_by_kind_and_the_first_is_quoted() -> None:
    figures = report(BROKEN, STEADY, BROKEN).to_dict()

    assert figures["failed_by_kind"] == {"timeout": 2}
    assert figures["first_error"] == "too late"


def test_goodput_asks_every_limit_and_failed_requests_stay_in_the_denominator() -> None:
    figures = report(STEADY, SINGLE, UNCOUNTED, BROKEN, objectives=("ttft:350", "tpot:100.1")).to_dict()

    # STEADY and SINGLE meet both; UNCOUNTED is too slow and its TPOT unknown; BROKEN counts as sent.
    assert figures["request_goodput"] == pytest.approx(2 / 4)
    assert figures["slo_attainment"] == pytest.approx(2 / 4)


def test_without_objectives_there_is_no_goodput() -> None:
    figures = report(STEADY).to_dict()

    assert figures["request_goodput"] is None
    assert figures["slo_attainment"] is None


def test_the_json_has_the_field_names_of_vllm_bench_serve() -> None:
    figures = json.loads(json.dumps(report(STEADY).to_dict()))

    settings = (
        "date backend endpoint_type label model_id tokenizer_id num_prompts request_rate burstiness max_concurrency"
    )
    totals = (
        "duration completed failed total_input_tokens total_output_tokens request_throughput request_goodput "
        "output_throughput total_token_throughput max_output_tokens_per_s max_concurrent_requests"
    )
    latencies = [
        f"{figure}_{metric}_ms"
        for figure in ("mean", "median", "std", "p50", "p95", "p99")
        for metric in ("ttft", "tpot", "itl", "e2el")
    ]
    assert figures.keys() >= {*settings.split(), *totals.split(), *latencies}
    assert (figures["model_id"], figures["num_prompts"], figures["request_rate"]) == ("m", 4, 3.0)


def test_a_closed_loop_has_an_infinite_rate_as_vllm_writes_it() -> None:
    info = RunInfo("http://example", "m", INFO.workload, Arrivals(concurrency=2), INFO.date)

    figures = make_report(info, LoadRun([Sample(0.0, STEADY)], 1.0, 2.0), {}, 0.1).to_dict()

    assert (figures["request_rate"], figures["max_concurrency"]) == ("inf", 2)


def test_a_run_of_failures_alone_has_counts_but_no_latencies() -> None:
    result = report(BROKEN, BROKEN, objectives=("ttft:200",))

    assert (result.completed, result.failed, result.attainment) == (0, 2, 0.0)
    assert result.ttft_ms == result.itl_ms == Spread()
    assert "2 timeout; the first: too late" in text_of(result)


def text_of(result: Report) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(render_report(result))
    return captured.get()


def test_the_table_shows_the_figures_and_what_to_doubt() -> None:
    text = text_of(report(STEADY, UNCOUNTED, BROKEN, objectives=("ttft:350", "tpot:100.1")))

    assert "2 completed, 1 failed, in 4.00 s" in text
    assert "0.250 requests/s, 33.3% of all sent (ttft <= 350 ms, tpot <= 100.1 ms)" in text
    assert "1 answers came without usage" in text
    assert "1.33 tokens on average" in text


def test_a_clean_run_warns_of_nothing() -> None:
    assert list(warnings(report(SINGLE))) == []
