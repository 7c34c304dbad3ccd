import json

import pytest

from tailrace.cli import main

FEW = ["bench", "matrix", "--requests", "60"]


def test_it_compares_the_old_policies_with_the_scheduler_on_both_loads(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(FEW) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "static batch length both tailrace" in shown
    assert "Trace: 70% of" in shown
    assert "Burst: 70% of" in shown
    assert "lengths divided by 16" in shown


def test_chosen_policies_and_every_figure_of_them_are_in_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FEW, "--policy", "round-robin", "tailrace", "--load", "1.2", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    trace, burst = figures["matrices"]
    assert (trace["load"]["kind"], burst["load"]["kind"]) == ("trace", "burst")
    assert [each["policy"] for each in trace["policies"]] == ["round-robin", "tailrace"]
    assert all(each["classes"][0]["attainment"] is not None for each in trace["policies"])


def test_fixed_lengths_are_padded_as_far_as_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    shares = []
    for length in ("512", "64"):
        assert main([*FEW, "--policy", "static", "--pad-to", length, "--json"]) == 0
        shares.append(json.loads(capsys.readouterr().out)["matrices"][0]["policies"][0]["padding_share"])
    assert shares[0] > shares[1] > 0.0


def test_help_explains_policies_and_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "matrix", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "dynamic-length" in shown
    assert "rows computed for nobody / rows computed" in shown
