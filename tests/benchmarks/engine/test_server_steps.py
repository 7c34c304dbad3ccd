import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from benchmarks.engine.idle import process_metrics
from benchmarks.engine.server_steps import LEAST_STEPS, ServedStep, summarize
from tests.benchmarks.engine.records import step_record


def served(number: int, *, num_running: int = 2, num_tokens: int | None = None) -> ServedStep:
    """Every 10 ms, of which the process is busy for 15 ms on two cores."""
    tokens = num_running if num_tokens is None else num_tokens
    return ServedStep(step_record(number * 0.010, num_tokens=tokens, num_running=num_running), number * 0.015)


def test_steady_steps_are_summarized_by_their_number_of_streams() -> None:
    steps = [
        *(served(number) for number in range(LEAST_STEPS + 1)),
        served(LEAST_STEPS + 1, num_tokens=66),  # a prompt comes: neither this step nor the gap before it counts
        *(served(LEAST_STEPS + 2 + number, num_running=3) for number in range(LEAST_STEPS)),
    ]
    (of_two,) = summarize(steps)  # of three streams there is one pair too few

    assert (of_two.num_streams, of_two.num_steps) == (2, LEAST_STEPS)
    assert (of_two.period_p50_ms, of_two.compute_p50_ms) == pytest.approx((10, 7))
    assert (of_two.plan_ms, of_two.commit_ms, of_two.between_ms) == pytest.approx((1, 1, 1))
    assert of_two.cpus_busy == pytest.approx(1.5)


def test_the_recording_server_is_the_command_line_and_leaves_a_file(tmp_path: Path) -> None:
    file = tmp_path / "steps.json"
    command = [sys.executable, "-m", "benchmarks.engine.recording_server", str(file), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert "tailrace serve" in done.stdout
    assert msgspec.json.decode(file.read_bytes(), type=list[ServedStep]) == []


def test_what_a_server_says_of_its_process_is_found_among_its_metrics() -> None:
    exposition = "# HELP process_x y\ntailrace_requests 4.0\nprocess_cpu_seconds_total 1.5\nprocess_open_fds 9.0\n"

    assert process_metrics(exposition) == {"process_cpu_seconds_total": 1.5, "process_open_fds": 9.0}
