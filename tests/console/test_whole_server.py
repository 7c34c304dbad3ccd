"""The console of a real server, with a model: what is on the page is what the server does."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import openai
import pytest
from playwright.sync_api import Page, expect

from tests.console.chatting import answer, ask, field
from tests.console.conftest import Complaints
from tests.server.process import ServerProcess, serving

KEY = "sk-of-the-tests-0123456789"
_RUNNING = "tailrace_requests_running"
_OUTPUT = "tailrace_output_tokens_total"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    keys = tmp_path_factory.mktemp("console") / "keys.jsonl"
    keys.write_text(json.dumps({"name": "tests", "key": KEY}) + "\n")
    with serving("--kv-memory", "256MiB", "--max-model-tokens", "2048", "--api-keys", str(keys)) as process:
        yield process


@pytest.fixture
def console(page: Page, server: ServerProcess, complaints: Complaints) -> Page:
    """The page of somebody who has typed the key, and wants short answers."""
    complaints.expected.add(401)
    page.add_init_script('localStorage.setItem(\'tailrace.settings\', \'{"maxTokens": "24", "temperature": "0"}\')')
    page.goto(server.url)
    page.get_by_role("dialog").get_by_label("API key").fill(KEY)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_hidden()
    return page


@contextmanager
def _load(server: ServerProcess) -> Iterator[None]:
    """Somebody has long answers written, one after the other."""
    is_over = threading.Event()
    client = openai.OpenAI(base_url=server.url + "/v1", api_key=KEY, max_retries=0)
    model = client.models.list().data[0].id

    def stream() -> None:
        while not is_over.is_set():
            prompt = "Tell me of the sea, of ships and of those who sail them, as long as you can."
            with client.completions.create(model=model, prompt=prompt, max_tokens=400, stream=True) as chunks:
                for _ in chunks:
                    if is_over.is_set():
                        break

    thread = threading.Thread(target=stream)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        client.close()


def _wait_for_tile(page: Page, name: str, *, is_some: bool) -> None:
    """Until the number above the charts is more than 0, or 0 again."""
    page.wait_for_function(
        """([name, isSome]) => {
            const tiles = [...document.querySelectorAll(".tiles div")];
            const tile = tiles.find((each) => each.querySelector("dt").textContent === name);
            const value = tile && Number(tile.querySelector("dd").textContent.replaceAll(",", ""));
            return isSome ? value > 0 : value === 0;
        }""",
        arg=[name, is_some],
    )


def test_who_chats_sees_what_it_took(console: Page) -> None:
    given = ask(console, "Say hello.")
    expect(given.locator(".facts")).to_contain_text("tok/s")
    expect(given.locator(".facts")).to_contain_text("prompt 3")  # tokens: 3x with its format
    console.get_by_role("button", name="Regenerate").click()
    expect(answer(console).locator(".facts")).to_contain_text("engine")  # whose prompt lies there now


def test_stopping_an_answer_stops_the_engine(console: Page, server: ServerProcess) -> None:
    console.get_by_role("button", name="Settings").click()
    console.get_by_label("Most tokens").fill("1500")
    num_before = server.metric(_OUTPUT)
    field(console).fill("Count from 1 to 1000, each number on a line of its own.")
    field(console).press("Enter")
    server.wait_for_metric(_RUNNING, 1)
    expect(answer(console).locator(".markdown")).to_be_visible()
    console.keyboard.press("Escape")
    server.wait_for_less(_RUNNING, 1)
    assert server.metric(_OUTPUT) - num_before < 1000  # it did not write to the end
    expect(answer(console).locator(".facts")).to_contain_text("stopped")


def test_numbers_move_with_the_load(console: Page, server: ServerProcess) -> None:
    console.get_by_role("link", name="Live").click()
    expect(console.get_by_role("status")).to_have_text("Live")
    with _load(server):
        for name in ("running", "output tok/s", "steps/s"):
            _wait_for_tile(console, name, is_some=True)
        expect(console.locator(".chosen-step")).to_contain_text(re.compile(r"\d+ steps, the longest"))
    for name in ("running", "output tok/s"):
        _wait_for_tile(console, name, is_some=False)
    expect(console.get_by_role("region", name="KV cache").get_by_role("row").nth(1)).to_contain_text("engine")


def test_an_answer_leads_to_its_life(console: Page) -> None:
    given = ask(console, "Say hello to the river.")
    given.get_by_role("link", name="Life").click()
    life = console.get_by_role("dialog")
    expect(life).to_contain_text("Up to its first token")
    expect(life.get_by_role("listitem").filter(has_text="decode")).to_be_visible()
    expect(life).to_contain_text(re.compile(r"Of \d+ prompt tokens"))
