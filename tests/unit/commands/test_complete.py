import asyncio
import io
import json
from collections.abc import AsyncIterator

import pytest

from tailrace.cli import main
from tests.unit.bench.scripted import Asked, json_answer, scripted, whole_answer


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


async def script(asked: Asked) -> AsyncIterator[bytes]:
    yield json_answer({"data": [{"id": "m"}]}) if asked.path == "/v1/models" else whole_answer([" there", " was"])


async def test_the_text_is_continued_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    async with scripted(script) as server:
        code = await asyncio.to_thread(main, ["complete", "Once", "--url", server.url, "--max-tokens", "2"])

    shown = capsys.readouterr()
    assert (code, shown.out, shown.err) == (0, " there was\n", "")
    asked = server.asked[-1].body
    assert (asked["prompt"], asked["max_tokens"], asked["temperature"]) == ("Once", 2, 0.0)


async def test_a_suffix_goes_along() -> None:
    async with scripted(script) as server:
        assert await asyncio.to_thread(main, ["complete", "Once", "--suffix", "end", "--url", server.url]) == 0
        assert server.asked[-1].body["suffix"] == "end"
        assert await asyncio.to_thread(main, ["complete", "Once", "--url", server.url]) == 0
        assert "suffix" not in server.asked[-1].body


async def test_without_a_text_standard_input_is_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Once\nupon"))
    async with scripted(script) as server:
        assert await asyncio.to_thread(main, ["complete", "--url", server.url]) == 0

    assert server.asked[-1].body["prompt"] == "Once\nupon"


def test_a_person_who_gives_no_text_is_told_how(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal())

    assert main(["complete"]) == 1
    assert 'tailrace complete "Once' in capsys.readouterr().err


async def test_json_is_the_whole_answer_with_counts_and_times(capsys: pytest.CaptureFixture[str]) -> None:
    async with scripted(script) as server:
        await asyncio.to_thread(main, ["complete", "Once", "--url", server.url, "--json"])

    figures = json.loads(capsys.readouterr().out)
    assert (figures["text"], figures["finish_reason"]) == (" there was", "stop")
    assert (figures["prompt_tokens"], figures["output_tokens"]) == (3, 2)
    assert figures["ttft_s"] > 0
