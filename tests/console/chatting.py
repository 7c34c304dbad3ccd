"""What a reader does with a chat, by the words on the page."""

from playwright.sync_api import Locator, Page, expect

__all__ = ["answer", "ask", "field"]


def field(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Your question")


def answer(page: Page) -> Locator:
    """The last one."""
    return page.get_by_role("article", name="Answer").last


def ask(page: Page, question: str) -> Locator:
    """Asks, and waits until it is answered; the answer."""
    num_before = page.get_by_role("article", name="Answer").count()
    field(page).fill(question)
    field(page).press("Enter")
    expect(page.get_by_role("article", name="Answer")).to_have_count(num_before + 1)
    expect(answer(page)).to_have_attribute("aria-busy", "false")
    return answer(page)
