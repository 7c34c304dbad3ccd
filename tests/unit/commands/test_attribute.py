"""`tailrace attribute` from its arguments to its exit code, against a scripted server."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest

from tailrace.cli import main
from tailrace.commands import attribute as command
from tailrace.errors import SetupError
from tailrace.telemetry.attribution_reading import AttributionReading
from tailrace.telemetry.roofline import Machine, Roofline
from tests.support.attributed import CEILINGS, SERVED, at_first, ten_seconds_later
from tests.unit.bench.scripted import Asked, Script, head, json_answer, scripted


def answering(*readings: AttributionReading) -> Script:
    """One after the other, and then the last."""
    left = list(readings)

    async def answer(asked: Asked) -> AsyncIterator[bytes]:
        assert asked.path == "/debug/attribution"
        yield json_answer(msgspec.to_builtins(left.pop(0) if len(left) > 1 else left[0]))

    return answer


def saying(answer: bytes) -> Script:
    async def say(_asked: Asked) -> AsyncIterator[bytes]:
        yield answer

    return say


async def run(script: Script, *arguments: str) -> int:
    async with scripted(script) as server:
        asked = ["attribute", "--url", server.url, "--seconds", "0.01", *arguments]
        return await asyncio.to_thread(main, asked)


class Counters:
    """Of a process that may be looked at."""

    def __init__(self, pid: int) -> None:
        assert pid == 4242

    def counts(self) -> dict[str, float]:
        return {"cycles": 2e9, "instructions": 5e9, "cache_misses": 6.25e8}

    def close(self) -> None:
        pass


class Controllers:
    """Of a machine that shows them."""

    def num_bytes(self) -> float:
        return 7.5e10

    def close(self) -> None:
        pass


async def test_a_server_is_watched_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert await run(answering(at_first(), ten_seconds_later())) == 0
    shown = capsys.readouterr().out
    in_one_line = " ".join(shown.split())
    for words in (
        "65% of the memory ceiling",
        "model on 2 threads",
        "400.0 tokens/s out",
        "engine, of 10.0 s",
        "ops, of 10 timed steps",
        "queueing",
        "read on the server's own machine alone",
    ):
        assert words in in_one_line
    assert next(line.split()[1:3] for line in shown.splitlines() if line.startswith("all ")) == ["10.000", "100.0%"]


async def test_json_has_the_conclusion_and_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    assert await run(answering(at_first(), ten_seconds_later()), "--json") == 0
    figures = json.loads(capsys.readouterr().out)

    assert figures["conclusion"][0].startswith("20% of the time")
    assert figures["output_tokens_per_s"] == 400.0
    assert sum(figures["engine"].values()) == pytest.approx(figures["seconds"])
    assert [op["name"] for op in figures["ops"]] == ["down", "attention", "between"]
    assert figures["counters"] == {}


async def test_counters_of_an_engine_beside_it_are_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "host_name", lambda: SERVED.host)
    monkeypatch.setattr(command, "ProcessCounters", Counters)
    monkeypatch.setattr(command, "MemoryControllers", Controllers)
    assert await run(answering(at_first(), ten_seconds_later())) == 0
    shown = capsys.readouterr().out
    assert "2.50" in shown, "instructions per cycle"
    assert "4 GB/s" in shown, "of 6.25e8 lines of 64 bytes in 10 s"
    assert "4.55 GB/s" in shown, "6.5 GB/s while it computed, of 7 s in 10"
    assert "7.5 GB/s" in shown, "of the memory controllers"
    assert "Note" not in shown


@pytest.mark.parametrize("counters", [["--no-counters"], []])
async def test_why_there_are_no_counters_is_a_note_unless_none_were_wanted(
    counters: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none(_pid: int) -> Counters:
        raise SetupError("no counters here")

    monkeypatch.setattr(command, "host_name", lambda: SERVED.host)
    monkeypatch.setattr(command, "ProcessCounters", none)
    assert await run(answering(at_first(), ten_seconds_later()), *counters) == 0
    assert ("Note: no counters here" in capsys.readouterr().out) == (not counters)


@pytest.mark.parametrize("name", ["where.svg", "where.png"])
async def test_it_is_drawn(name: str, tmp_path: Path) -> None:
    assert await run(answering(at_first(), ten_seconds_later()), "--plot", str(tmp_path / name)) == 0
    drawn = (tmp_path / name).read_bytes()
    if name.endswith("svg"):
        for words in (b"first token", b"down", b"attention", b"memory", b"compute", b"operations per byte"):
            assert words in drawn
    else:
        assert drawn.startswith(b"\x89PNG")


def without_ceilings() -> tuple[AttributionReading, AttributionReading]:
    first, last = at_first(), ten_seconds_later()
    first.served = last.served = msgspec.structs.replace(SERVED, ceilings=None)
    return first, last


async def test_without_ceilings_it_says_what_to_do_and_draws_the_bars(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await run(answering(*without_ceilings()), "--plot", str(tmp_path / "bars.svg")) == 0
    assert "run 'tailrace roofline' on the server's machine" in " ".join(capsys.readouterr().out.split())
    assert b"operations per byte" not in (tmp_path / "bars.svg").read_bytes()


@pytest.mark.parametrize(("idle_s", "num_measured"), [(59.95, 1), (52.0, 0)])
async def test_ceilings_are_measured_beside_a_server_at_rest_alone(
    idle_s: float, num_measured: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, last = without_ceilings()
    last.engine_seconds["idle"] = idle_s
    measured: list[int] = []

    class Kept:
        def find(self) -> Roofline | None:
            return None

    def measure(_kept: Kept, counts: Sequence[int]) -> Roofline:
        measured.extend(counts)
        return Roofline(Machine("a processor", "", 2), "0", 0.0, 0.0, "", (CEILINGS,))

    monkeypatch.setattr(command, "host_name", lambda: SERVED.host)
    monkeypatch.setattr(command, "kept_roofline", Kept)
    monkeypatch.setattr(command, "measured_here", measure)
    assert await run(answering(first, last)) == 0
    assert measured == [2] * num_measured


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (json_answer({"error": {"message": "send the admin key"}}, 401), "wants its admin key: give it with"),
        (json_answer({"error": {"message": "no"}}, 403), "wants its admin key"),
        (json_answer({"detail": "Not Found"}, 404), "another kind of server, or an older one"),
        (json_answer({"error": "oh"}, 500), "answers with an error: HTTP 500: oh"),
        (json_answer({"at_s": "soon"}), "words of another version"),
        (json_answer([]), "words of another version"),
        (head() + b"[" * 100_000, "words of another version"),
        (b"hello\r\n\r\n", "does not answer"),
    ],
)
async def test_who_cannot_say_is_told_of_in_one_line(
    answer: bytes, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await run(saying(answer)) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


@pytest.mark.parametrize("url", ["ftp://somewhere", "http://:1:2", "http://127.0.0.1:1"])
def test_where_nobody_listens_is_one_line(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["attribute", "--url", url]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "1e30"])
def test_a_window_that_cannot_be_is_refused_by_its_name(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["attribute", "--url", "http://127.0.0.1:9", "--seconds", seconds]) == 2
    assert "for --seconds. Must be " in capsys.readouterr().err


async def test_an_engine_that_was_started_anew_is_no_window(capsys: pytest.CaptureFixture[str]) -> None:
    last = ten_seconds_later()
    last.engine_pid = 4343
    assert await run(answering(at_first(), last)) == 1
    assert "started anew meanwhile" in capsys.readouterr().err


async def test_the_admin_key_is_sent(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("of-the-operator-alone\n")
    async with scripted(answering(at_first(), ten_seconds_later())) as server:
        arguments = ["--url", server.url, "--seconds", "0.01", "--key-file", str(tmp_path / "key")]
        assert await asyncio.to_thread(main, ["attribute", *arguments]) == 0
        assert {asked.headers["authorization"] for asked in server.asked} == {"Bearer of-the-operator-alone"}
