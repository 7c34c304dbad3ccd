"""Draws the pictures of docs/console.md: `python -m tests.console.screenshots`. The numbers are those of `frames`."""

from playwright.sync_api import Page, expect, sync_playwright

from tests.architecture.tree import ROOT
from tests.console.chatting import ask
from tests.console.conftest import chromium
from tests.console.frames import REQUEST_ID
from tests.console.scripted_server import SCRIPTS, scripted_server, slowly, words
from tests.support.scripted_service import finish, thought

IMAGES = ROOT / "docs" / "images"
_LOOK_MS = 18_000  # until the lines are long enough to see

_QUESTION = "Why does the first token take longer than the next ones?"
_ANSWER = """Before the first token, the model has to read the **whole prompt**; each later token adds one position.

| | tokens computed | limited by |
|---|---|---|
| prompt | all that no cache has | arithmetic |
| each next token | 1 | memory bandwidth |

So a prompt that is already in the cache starts *sooner*, but does not run faster:

```python
ttft = queue + fetch + uncached_tokens * prefill_s + decode_s
```
"""


def _script_the_answer() -> None:
    thoughts = [thought(piece) for piece in ("They ask ", "about prefill and decode. ", "A table will do.")]
    SCRIPTS["Why"] = lambda: [*slowly([*thoughts, *words(_ANSWER)]), finish()]


def _chat(page: Page, url: str) -> None:
    page.goto(url)
    ask(page, _QUESTION)
    page.get_by_role("button", name="Settings").click()
    page.screenshot(path=IMAGES / "chat.png")


def _live(page: Page, url: str) -> None:
    page.set_viewport_size({"width": 1180, "height": 1120})
    page.goto(f"{url}/#live")
    page.wait_for_timeout(_LOOK_MS)
    page.screenshot(path=IMAGES / "live.png")


def _life(page: Page) -> None:
    page.emulate_media(color_scheme="dark")
    page.get_by_role("link", name=REQUEST_ID, exact=True).last.click()
    life = page.get_by_role("dialog")
    expect(life).to_contain_text("Its cache")
    life.screenshot(path=IMAGES / "life.png")


def _phone(page: Page, url: str) -> None:
    page.set_viewport_size({"width": 390, "height": 780})
    page.goto(f"{url}/#live")
    page.wait_for_timeout(2000)
    page.screenshot(path=IMAGES / "phone.png")


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    _script_the_answer()
    with scripted_server() as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1180, "height": 760})
        _chat(page, server.url)
        _live(page, server.url)
        _life(page)
        _phone(page, server.url)
        browser.close()


if __name__ == "__main__":
    main()
