from collections.abc import Callable

import pytest

from tailrace.commands import download


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replaces the download by one of two steps; keeps that it happened."""
    steps: list[str] = []

    def fetch(progress: Callable[[int, int], None]) -> None:
        steps.append("start")
        progress(1, 2)
        progress(2, 2)
        steps.append("end")

    monkeypatch.setattr(download, "default_model_path", fetch)
    return steps


@pytest.mark.parametrize("model", [None, "default"])
def test_the_default_model_is_fetched_without_a_word_in_a_pipe(
    model: str | None, fetched: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    download.fetch_default_model(model)

    assert fetched == ["start", "end"]
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "")


def test_a_terminal_sees_how_far_it_is(
    fetched: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")

    download.fetch_default_model(None)

    assert fetched == ["start", "end"]
    assert "Fetching the default model" in capsys.readouterr().err


def test_a_model_of_ones_own_needs_no_download(fetched: list[str]) -> None:
    download.fetch_default_model("./mine.gguf")

    assert fetched == []
