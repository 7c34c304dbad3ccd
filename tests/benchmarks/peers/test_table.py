"""What the comparison says to a person and to a file."""

import io
from dataclasses import replace

import msgspec
import pytest
from rich.console import Console

from benchmarks.peers.engine import Description
from benchmarks.peers.rounds import Measurement, Outcome
from benchmarks.peers.standings import standings
from benchmarks.peers.table import Comparison, render, to_dict
from tests.benchmarks.peers.scripted import measurement

US = Description("0.4 (abc)", "Q4_1", "")
THEM = Description("server==2.1", "Q4_0", "-t 2 -np 32")


def comparison(*measurements: Measurement) -> Comparison:
    outcome = Outcome(list(measurements), {"them": "W2: no token within 120 s"})
    return Comparison(
        machine="a box",
        date="2026-11-29T12:00:00+00:00",
        num_rounds=1,
        seed=5,
        engines={"us": US, "them": THEM},
        skipped={"absent": "'absent' is not installed"},
        outcome=outcome,
        standings=standings(outcome.measurements, "us"),
    )


def shown(of: Comparison) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(render(of))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


RUNS = (measurement("us", "W1", gap_s=0.004), measurement("them", "W1", gap_s=0.01))


def test_a_row_shows_both_figures_their_ratio_and_the_aim() -> None:
    (row,) = [line for line in shown(comparison(*RUNS)).splitlines() if "ITL p50 ms" in line]
    assert [cell.strip() for cell in row.split("│")[1:-1]] == [
        "W1: 1 stream, prompt 128",
        "ITL p50 ms",
        "4.00",
        "10.00",
        "them",
        "0.40",
        "0.40..0.40",
        "<= 0.45",
        "yes",
    ]


def test_the_aims_that_are_met_are_counted() -> None:
    assert "aims met: 1 of 2" in shown(comparison(*RUNS))


def test_versions_weights_and_flags_are_named() -> None:
    text = shown(comparison(*RUNS))
    assert "us: 0.4 (abc); weights: Q4_1; no flags" in text
    assert "them: server==2.1; weights: Q4_0; -t 2 -np 32" in text


def test_who_is_left_out_is_named_with_the_reason() -> None:
    text = shown(comparison(*RUNS))
    assert "left out: absent: 'absent' is not installed" in text
    assert "left out: them: W2: no token within 120 s" in text


def test_without_a_peer_nothing_is_met_or_missed() -> None:
    text = shown(comparison(RUNS[0]))
    assert "aims met: 0 of 0" in text


@pytest.mark.parametrize(("other_cpu", "is_noisy"), [(0.04, False), (0.3, True)])
def test_a_machine_that_was_not_quiet_is_told(other_cpu: float, is_noisy: bool) -> None:
    text = shown(comparison(replace(RUNS[0], other_cpu=other_cpu), RUNS[1]))
    assert ("not quiet: in 1 of 2 runs other processes had up to 30% of the machine" in text) is is_noisy


def test_the_file_keeps_runs_reasons_versions_and_standings() -> None:
    kept = msgspec.json.decode(msgspec.json.encode(to_dict(comparison(*RUNS))))
    assert [(run["engine"], run["round"], run["label"]) for run in kept["runs"]] == [("us", 1, "W1"), ("them", 1, "W1")]
    assert kept["runs"][1]["median_itl_ms"] == pytest.approx(10.0)
    assert kept["left_out"].keys() == {"absent", "them"}
    assert kept["engines"]["them"] == {"version": "server==2.1", "weights": "Q4_0", "flags": "-t 2 -np 32"}
    first = kept["standings"][0]
    assert (first["figure"], first["best_peer"], first["aim"], first["is_met"]) == ("ITL p50 ms", "them", 0.45, True)


def test_the_file_calls_a_model_by_its_name_where_a_server_calls_it_by_its_path() -> None:
    run = RUNS[1]
    from_a_path = replace(run, report=replace(run.report, info=replace(run.report.info, model="/some/where/Q4_0.gguf")))

    (row,) = to_dict(comparison(from_a_path))["runs"]

    assert (row["model_id"], row["tokenizer_id"]) == ("Q4_0.gguf", "Q4_0.gguf")
