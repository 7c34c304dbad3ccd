"""A browser for the tests of a file, and pages that fail a test when they complain.

A file has its own: while Playwright runs, no test that is a coroutine could.
"""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.console.scripted_server import ScriptedServer, scripted_server

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
TIMEOUT_MS = 30_000  # of a busy machine; what is there sooner is taken sooner


def chromium() -> str:
    """The program of the system; Playwright's own is not fetched."""
    program = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    assert program, "there is no Chromium: `make test` installs it, or: apt-get install chromium"
    return program


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Complaints:
    """What a page says on its console that it should not. A test names the statuses that it provokes."""

    expected: set[int] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)

    def hear(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.texts.append(message.text)

    @property
    def unexpected(self) -> list[str]:
        return [text for text in self.texts if not self._is_expected(text)]

    def _is_expected(self, text: str) -> bool:
        status = re.search(r"responded with a status of (\d+)", text)
        return status is not None and int(status[1]) in self.expected


@pytest.fixture
def complaints() -> Complaints:
    return Complaints()


@pytest.fixture
def page(browser: Browser, complaints: Complaints) -> Iterator[Page]:
    """An empty page. Whatever it complains of, a violated policy among it, fails the test."""
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        context.set_default_timeout(TIMEOUT_MS)
        page = context.new_page()
        page.on("console", complaints.hear)
        page.on("pageerror", lambda error: complaints.texts.append(str(error)))
        yield page
    assert complaints.unexpected == []


@pytest.fixture(scope="module")
def scripted() -> Iterator[ScriptedServer]:
    with scripted_server() as server:
        yield server


@pytest.fixture
def chat(page: Page, scripted: ScriptedServer) -> Page:
    """The chat of a page that nobody has used before."""
    page.goto(scripted.url)
    return page


@pytest.fixture
def live(page: Page, scripted: ScriptedServer) -> Page:
    """The live view, with numbers in it."""
    page.goto(scripted.url + "/#live")
    page.get_by_role("heading", name="Throughput").wait_for()
    return page
