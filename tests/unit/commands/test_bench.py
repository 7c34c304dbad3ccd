"""`tailrace bench` from its arguments to its exit code, against a scripted server."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tailrace.cli import main
from tests.unit.bench.scripted import Asked, ScriptedServer, event, head, json_answer, scripted, whole_answer

SMALL = ("--requests", "4", "--concurrency", "2", "--prompt-tokens", "12", "--output-tokens", "3", "--warmup", "1")


async def good(asked: Asked) -> AsyncIterator[bytes]:
    """Counts words as tokens and answers with three of them."""
    match asked.path:
        case "/v1/models":
            yield json_answer({"data": [{"id": "first"}]})
        case "/tokenize":
            words = (asked.body.get("prompt") or asked.body["messages"][0]["content"]).split()
            yield json_answer({"tokens": [hash(word) for word in words]})
        case _:
            yield whole_answer(["a", "b", "c"], prompt=12)


async def broken(asked: Asked) -> AsyncIterator[bytes]:
    """Refuses every other answer and breaks off the rest."""
    if "completions" not in asked.path:
        async for piece in good(asked):
            yield piece
    elif int(asked.body["seed"]) % 2:
        yield json_answer({"error": {"message": "full"}}, 429)
    else:
        yield head() + event({"error": {"message": "lost"}})


def sent(server: ScriptedServer) -> list[dict[str, Any]]:
    return [asked.body for asked in server.asked if "completions" in asked.path]


async def test_a_run_ends_with_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    async with scripted(good) as server:
        code = await asyncio.to_thread(main, ["bench", "--url", server.url, *SMALL, "--goodput", "e2el:60000"])

    shown = capsys.readouterr()
    assert code == 0
    assert "4 completed, 0 failed" in shown.out
    assert "48 in (0 cached), 12 out" in shown.out
    assert "100.0% of all sent" in shown.out
    assert "not exact" not in shown.out
    assert shown.err == "", "no progress in a pipe"


async def test_requests_carry_what_was_asked_for() -> None:
    arguments = ("--ignore-eos", "--api-key", "secret", "--extra-body", '{"top_k": 5}', "--shared-prefix", "6")
    async with scripted(good) as server:
        await asyncio.to_thread(main, ["bench", "--url", server.url, *SMALL, *arguments])

    bodies = sent(server)
    assert len(bodies) == 5, "four measured and one to warm up"
    assert all(body["model"] == "first" and body["max_tokens"] == 3 and body["ignore_eos"] for body in bodies)
    assert all((body["top_k"], body["temperature"]) == (5, 0.0) for body in bodies)
    assert len({body["prompt"] for body in bodies}) == 5
    assert len({tuple(body["prompt"].split()[:6]) for body in bodies}) == 1
    assert {asked.headers["authorization"] for asked in server.asked} == {"Bearer secret"}


@pytest.mark.parametrize("arguments", [[], ["--rate", "500"]])
async def test_json_without_a_name_goes_to_standard_output_alone(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    async with scripted(good) as server:
        main_arguments = ["bench", "--url", server.url, *SMALL, *arguments, "--endpoint", "chat", "--json"]
        assert await asyncio.to_thread(main, main_arguments) == 0

    figures = json.loads(capsys.readouterr().out)
    assert (figures["completed"], figures["total_output_tokens"], figures["backend"]) == (4, 12, "openai-chat")
    assert figures["request_rate"] == (500.0 if arguments else "inf")


async def test_json_with_a_name_goes_to_that_file_beside_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.json"
    async with scripted(good) as server:
        await asyncio.to_thread(main, ["bench", "--url", server.url, *SMALL, "--json", str(path), "--seed", "7"])

    assert json.loads(path.read_text())["seed"] == 7
    assert "4 completed" in capsys.readouterr().out


async def test_the_same_seed_sends_the_same_prompts_and_none_sends_new_ones() -> None:
    async with scripted(good) as server:
        for seed in (["--seed", "7"], ["--seed", "7"], [], []):
            await asyncio.to_thread(main, ["bench", "--url", server.url, *SMALL, *seed])

    runs = [{body["prompt"] for body in sent(server)[start : start + 5]} for start in (0, 5, 10, 15)]
    assert runs[0] == runs[1]
    assert not runs[1] & runs[2]
    assert not runs[2] & runs[3]


async def test_a_run_in_which_every_request_failed_says_why_and_exits_with_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["--extra-body", '{"seed": 1}', "--goodput", "ttft:200"]
    async with scripted(broken) as server:
        code = await asyncio.to_thread(main, ["bench", "--url", server.url, *SMALL, *arguments])

    shown = capsys.readouterr().out
    assert code == 1
    assert "0 completed, 4 failed" in shown
    assert "4 http_429" in shown
    assert "full" in shown
    assert "0.0% of all sent" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shared-prefix", "12"], "shared prefix of 12"),
        (["--extra-body", "[1]"], "--extra-body is not a JSON object"),
        (["--goodput", "itl:3"], "ttft, tpot, e2el"),
        (["--json", "/nowhere/run.json"], "cannot write /nowhere/run.json"),
    ],
)
async def test_what_cannot_be_done_is_said_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with scripted(good) as server:
        assert await asyncio.to_thread(main, ["bench", "--url", server.url, *SMALL, *arguments]) == 1

    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


async def test_no_server_at_all_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    async with scripted(good) as server:
        pass

    assert await asyncio.to_thread(main, ["bench", "--url", server.url]) == 1

    (line,) = capsys.readouterr().err.splitlines()
    assert "no model found" in line
    assert "is the server up?" in line
