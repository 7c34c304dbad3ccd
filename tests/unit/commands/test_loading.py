import io
import sys

import pytest

from tailrace.commands.loading import LoadingBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now_s = [0.0]
    monkeypatch.setattr("tailrace.commands.loading.time.monotonic", lambda: now_s[0])
    return now_s


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, clock: list[float], seconds: float) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    bar = LoadingBar()
    clock[0] += seconds
    for done in (1, 2):
        bar(done, 2)
    return stream.getvalue()


def test_a_slow_load_shows_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    assert "Loading the model" in shown(monkeypatch, Terminal(), clock, seconds=2.0)


def test_a_quick_load_shows_nothing(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    assert shown(monkeypatch, Terminal(), clock, seconds=0.5) == ""


def test_a_pipe_sees_nothing(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    assert shown(monkeypatch, io.StringIO(), clock, seconds=2.0) == ""
