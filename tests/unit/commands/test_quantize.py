import json
import signal
from pathlib import Path

import pytest

from tailrace.cli import main
from tailrace.commands.loading import LoadingBar
from tailrace.weights.load import open_checkpoint


def test_it_writes_a_model_and_says_what_that_costs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "small.gguf"
    arguments = ["tiny-deepseek", "--to", "int4", "--output", str(output), "--perplexity-tokens", "60"]
    assert main(["quantize", *arguments]) == 0

    shown = capsys.readouterr().out
    assert "3.7 MiB, from 5.5 MiB" in shown
    assert "of 60 tokens that no method has seen" in shown
    assert open_checkpoint(str(output)).tensors["layers.1.experts.up"].format == "q4"


def test_json_has_both_perplexities(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "small.gguf"
    arguments = ["tiny-deepseek", "--to", "int4", "--output", str(output), "--perplexity-tokens", "60", "--json"]
    assert main(["quantize", *arguments]) == 0

    figures = json.loads(capsys.readouterr().out)
    assert (figures["to"], figures["method"], figures["held_out_tokens"]) == ("int4", "rtn", 60)
    assert figures["perplexity_before"] != figures["perplexity_after"]
    assert figures["output_bytes"] == output.stat().st_size


def test_without_a_name_the_output_is_named_after_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["quantize", "tiny-deepseek", "--to", "int4", "--perplexity-tokens", "0"]) == 0

    assert [file.name for file in tmp_path.iterdir()] == ["tiny-deepseek-int4.gguf"]
    assert "perplexity" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tiny-deepseek", "--to", "int8"], "8 bits already"),
        (["nowhere", "--to", "int8"], "neither a file nor a directory"),
        (["tiny-deepseek", "--to", "int4", "--calibrate", "text.txt"], "looks at no text"),
        (["tiny-deepseek", "--to", "int4", "--output", "none/out.gguf"], "there is no directory none"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["quantize", *arguments]) == 1

    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert list(tmp_path.iterdir()) == []


def test_sigterm_ends_it_as_an_interrupt_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(LoadingBar, "__call__", lambda *_: signal.raise_signal(signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)

    assert main(["quantize", "tiny-deepseek", "--to", "int4", "--perplexity-tokens", "0"]) == 130
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().err == ""
    assert signal.getsignal(signal.SIGTERM) is before


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quantize", "--help"]) == 0
    assert "tailrace quantize ./model --to int4" in capsys.readouterr().out
