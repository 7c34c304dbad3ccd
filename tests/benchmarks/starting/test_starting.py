import pytest

from benchmarks.starting.__main__ import OURS, complete, parse_arguments, phases, serve, show


def test_a_start_is_measured_and_taken_apart(capsys: pytest.CaptureFixture[str]) -> None:
    times = dict(phases(OURS))
    assert list(times)[:2] == ["interpreter", "import: command line"]
    assert {"open, fingerprint", "pack", "calibrate", "tokenizer"} <= times.keys()
    times |= {**complete(OURS), **serve(OURS)}
    assert times["serve: ready"][0] <= times["serve: first token"][0]
    assert all(cpu_s > 0.0 for name, (_, cpu_s) in times.items() if name.endswith("first token"))

    show({name: {str(OURS): pair} for name, pair in times.items()}, [str(OURS)])
    assert "complete: first token" in capsys.readouterr().out


def test_everything_is_measured_unless_something_is_named() -> None:
    assert parse_arguments([]).only == ["complete", "serve", "phases"]
    assert parse_arguments(["--only", "serve"]).only == ["serve"]
