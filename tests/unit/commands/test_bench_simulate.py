import json
from pathlib import Path

import pytest

from tailrace.cli import main

FEW = ["bench", "simulate", "--requests", "60"]


def test_it_shows_each_class(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FEW, "--load", "0.8"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "requests 60, conversations of Azure, 2023, lengths divided by 16" in shown
    assert "load 80% of" in shown
    assert all(f"TTFT {name}" in shown for name in ("gold", "silver", "bronze"))


def test_json_alone_goes_to_standard_output_and_repeats(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for _ in range(2):
        assert main([*FEW, "--burst", "4", "--policy", "fcfs", "--seed", "3", "--json"]) == 0
        shown.append(capsys.readouterr().out)
    figures = json.loads(shown[0])
    assert shown[0] == shown[1]
    assert figures["policy"] == "fcfs"
    assert figures["capacity_requests_per_s"] > 0
    assert [each["name"] for each in figures["classes"]] == ["gold", "silver", "bronze"]


def test_a_trace_of_ones_own_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n0,20,3\n1000,20,3\n")
    arguments = ["--trace", str(trace), "--divide-lengths", "1", "--classes", "bronze=1", "--json"]
    assert main(["bench", "simulate", *arguments]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["num_requests"] == 2
    assert [each["num_requests"] for each in figures["classes"]] == [0, 0, 2]


@pytest.mark.parametrize("word", ["iron=1", "gold", "gold=0", "gold=x"])
def test_a_class_that_is_unknown_or_has_no_weight_is_refused(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FEW, "--classes", word]) == 1
    assert "--classes" in capsys.readouterr().err


def test_help_explains_policies_and_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "simulate", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "round-robin" in shown
    assert "requests on target / duration" in shown


@pytest.mark.parametrize("value", ["inf", "nan", "100"])
def test_noise_that_leaves_nothing_of_a_step_is_misuse(value: str) -> None:
    assert main([*FEW, "--noise", value]) == 2
