import json
from pathlib import Path

import pytest

from tailrace.cli import main
from tailrace.commands.quantity import format_bytes

SMALL = ["--streams", "2", "--prompt-tokens", "20", "--output-tokens", "8", "--rounds", "1", "--backend", "reference"]


def test_it_shows_what_a_shape_costs_and_keeps_the_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    assert main(["bench", "synth", "toy-v2-lite", *SMALL, "--json", str(file)]) == 0

    shown, figures = capsys.readouterr().out, json.loads(file.read_text())
    assert "toy-v2-lite, 0.03 B parameters, random" in shown
    assert "20 tokens in " in shown
    assert (figures["name"], figures["weights"], figures["prompt_tokens"]) == ("toy-v2-lite", "int4", 20)
    assert [decode["num_streams"] for decode in figures["decodes"]] == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gpt-9"], "no shape 'gpt-9' is known"),
        (["toy-v2-lite", "--output-tokens", "3"], "3 tokens a stream say nothing"),
        (["toy-v2-lite", "--prompt-tokens", "5000"], "4,096 tokens"),
    ],
)
def test_what_cannot_be_measured_is_said_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "synth", *arguments]) == 1

    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_help_names_the_shapes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "synth", "--help"]) == 0
    assert "deepseek-v2-lite" in capsys.readouterr().out


def test_a_file_that_was_written_is_told_with_its_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "weights.gguf"

    assert main(["bench", "synth", "toy-v2-lite", "--gguf", str(file)]) == 0

    assert capsys.readouterr().err == f"Wrote {file}, {format_bytes(file.stat().st_size)}\n"
