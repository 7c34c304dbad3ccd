"""Where the time of a real server goes: what it says adds up to what a clock says."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import msgspec
import openai
import pytest

from tailrace.cli import main
from tailrace.telemetry.attribution import Attribution, attribute
from tailrace.telemetry.attribution_reading import AttributionReading
from tests.server.conftest import ADMIN_KEY
from tests.server.process import ServerProcess


def read(admin: openai.OpenAI) -> AttributionReading:
    answer = admin.get("/debug/attribution", cast_to=object, options={"max_retries": 0})
    return msgspec.convert(answer, AttributionReading)


@contextmanager
def answering(client: openai.OpenAI, num_streams: int) -> Iterator[None]:
    """So many answers are made meanwhile."""

    def answer(index: int) -> None:
        model = client.models.list().data[0].id
        client.completions.create(
            model=model, prompt=f"{index} is a number that", max_tokens=64, extra_body={"ignore_eos": True}
        )

    with ThreadPoolExecutor(num_streams) as pool:
        answers = [pool.submit(answer, index) for index in range(num_streams)]
        yield
        for each in answers:
            each.result()


def test_the_parts_of_the_engine_add_up_to_the_clock(admin: openai.OpenAI, client: openai.OpenAI) -> None:
    asked_s = time.monotonic()
    first = read(admin)
    began_s = time.monotonic()
    with answering(client, 4):
        pass
    time.sleep(0.5)
    ends_s = time.monotonic()
    last = read(admin)
    told_s = time.monotonic()

    found = attribute(first, last)
    total_s = sum(found.engine.values())
    assert 0.99 * (ends_s - began_s) <= total_s <= 1.01 * (told_s - asked_s)
    assert total_s == pytest.approx(found.seconds, rel=0.05)
    assert found.engine["compute"] > 0.0
    assert found.engine["idle"] >= 0.3
    assert last.num_output_tokens - first.num_output_tokens == pytest.approx(4 * 64, abs=4)
    assert last.engine_pid == first.engine_pid


def test_a_first_token_is_in_its_parts(admin: openai.OpenAI, client: openai.OpenAI) -> None:
    first = read(admin)
    with answering(client, 2):
        pass
    found = attribute(first, read(admin))
    assert found.num_first_tokens == 2.0
    assert {"accept", "tokenise", "queue", "prefill", "write"} <= set(found.first_token)
    assert 0.0 < found.first_token["prefill"] < found.first_token_s


def test_only_the_operator_may_look(client: openai.OpenAI) -> None:
    with pytest.raises(openai.AuthenticationError, match="admin key"):
        client.get("/debug/attribution", cast_to=object)


async def test_the_verb_tells_of_it(server: ServerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = tmp_path / "key"
    key.write_text(ADMIN_KEY)
    asked = ["attribute", "--url", server.url, "--seconds", "0.2", "--key-file", str(key), "--json"]
    assert await asyncio.to_thread(main, asked) == 0
    found = msgspec.json.decode(capsys.readouterr().out, type=Attribution)
    assert sum(found.engine.values()) == pytest.approx(found.seconds, rel=0.05)
    assert found.served.num_threads >= 1
