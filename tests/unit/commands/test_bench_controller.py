import json
from pathlib import Path

import pytest

from tailrace.cli import main


def test_it_shows_figures_and_plots_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    svg = tmp_path / "response.svg"
    assert main(["bench", "controller", "--svg", str(svg)]) == 0
    shown = capsys.readouterr().out
    assert "Kp 0.8, Ki 0.02, Kd 0.3" in shown
    assert "memory squeezed" in shown
    assert "█" in shown
    assert svg.read_text().startswith("<svg")


def test_json_alone_goes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "controller", "--kp", "0.5", "--seed", "3", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["gains"] == {"kp": 0.5, "ki": 0.02, "kd": 0.3}
    assert [response["name"] for response in figures["responses"]][:2] == ["load doubles", "load halves"]
    assert set(figures["responses"][0]["samples"][0]) >= {"at_s", "p99_ratio", "max_running", "pace", "free_share"}


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "controller", "--svg", str(tmp_path / "missing" / "a.svg")]) == 1
    assert "cannot write" in capsys.readouterr().err


def test_a_gain_below_zero_is_misuse() -> None:
    assert main(["bench", "controller", "--kp", "-1"]) == 2


@pytest.mark.parametrize("option", ["--kp", "--ki", "--kd", "--bend", "--noise"])
@pytest.mark.parametrize("value", ["inf", "nan", "1e300"])
def test_numbers_that_no_formula_bears_are_misuse(option: str, value: str) -> None:
    assert main(["bench", "controller", option, value]) == 2
