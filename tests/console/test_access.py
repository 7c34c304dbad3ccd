"""Whoever reads it: by keyboard, on a phone, in the dark, with a key, without motion."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.chatting import answer, ask, field
from tests.console.conftest import TIMEOUT_MS, Complaints
from tests.console.frames import REQUEST_ID
from tests.console.scripted_server import ScriptedServer, scripted_server

PHONE_PX = 360
_MOST_TABS = 80


@pytest.fixture
def phone(page: Page, scripted: ScriptedServer) -> Page:
    page.set_viewport_size({"width": PHONE_PX, "height": 740})
    page.goto(scripted.url)
    return page


def _tab_to(page: Page, name: str) -> None:
    """Tabs on until something of this name has the focus, and a ring around it."""
    for _ in range(_MOST_TABS):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            """() => {
                const { ariaLabel, textContent } = document.activeElement;
                return [(ariaLabel ?? textContent).trim(), getComputedStyle(document.activeElement).outlineStyle];
            }"""
        )
        if focused[0] == name:
            assert focused[1] != "none", f"nobody sees that {name} has the focus"
            return
    raise AssertionError(f"no {name} within {_MOST_TABS} tabs")


def _width(page: Page) -> int:
    """How wide the page would have to be to show all that cannot be scrolled to in its part."""
    return int(
        page.evaluate(
            """() => Math.max(
                document.documentElement.scrollWidth,
                ...[...document.querySelectorAll("#main *, dialog *")]
                    .filter((each) => !each.closest(".scroll, pre, table, .only-read, .plot, .life-bar"))
                    .map((each) => Math.ceil(each.getBoundingClientRect().right)),
            )"""
        )
    )


def test_a_chat_needs_no_mouse(chat: Page, scripted: ScriptedServer) -> None:
    expect(field(chat)).to_be_focused()
    chat.keyboard.type("endless")
    chat.keyboard.press("Shift+Enter")
    chat.keyboard.type("second line")
    chat.keyboard.press("Enter")
    expect(answer(chat)).to_contain_text("word word")
    chat.keyboard.press("Escape")
    expect(answer(chat).locator(".facts")).to_contain_text("stopped")
    expect(chat.get_by_role("article", name="Question")).to_contain_text("endless\nsecond line", use_inner_text=True)
    _tab_to(chat, "Settings")
    chat.keyboard.press("/")
    expect(field(chat)).to_be_focused()
    assert field(chat).input_value() == ""
    chat.keyboard.type("a/b")  # within a field, a slash is a slash
    assert field(chat).input_value() == "a/b"


def test_conversations_are_a_list_for_arrow_keys(chat: Page) -> None:
    ask(chat, "about rivers")
    chat.get_by_role("button", name="New conversation").click()
    ask(chat, "about dams")
    _tab_to(chat, "about dams")
    chat.keyboard.press("ArrowDown")
    chat.keyboard.press("Enter")
    expect(answer(chat)).to_contain_text("You said: about rivers")


def test_the_bar_can_be_skipped(live: Page) -> None:
    live.keyboard.press("Tab")
    expect(live.get_by_role("link", name="Skip to the content")).to_be_focused()
    live.keyboard.press("Enter")
    expect(live.locator("#main")).to_be_focused()


def test_the_live_view_needs_no_mouse(live: Page) -> None:
    live.keyboard.press("Tab")
    _tab_to(live, REQUEST_ID)
    live.keyboard.press("ArrowDown")
    expect(live.get_by_role("link", name="req-of-the-tests-1", exact=True)).to_be_focused()
    live.keyboard.press("ArrowUp")
    live.keyboard.press("Enter")
    expect(live.get_by_role("dialog")).to_contain_text("Its cache")
    live.keyboard.press("Escape")
    expect(live.get_by_role("dialog")).to_have_count(0)


def test_an_answer_is_read_out_once_it_is_whole(chat: Page) -> None:
    log = chat.get_by_role("log")
    expect(log).to_have_attribute("aria-live", "polite")
    field(chat).fill("endless")
    field(chat).press("Enter")
    expect(log).to_have_attribute("aria-busy", "true")
    chat.keyboard.press("Escape")
    expect(log).to_have_attribute("aria-busy", "false")


def test_a_chat_fits_a_phone(phone: Page) -> None:
    ask(phone, "markdown")
    assert _width(phone) <= PHONE_PX
    phone.get_by_role("button", name="Settings").click()
    expect(phone.get_by_label("System prompt")).to_be_visible()
    assert _width(phone) <= PHONE_PX
    phone.get_by_role("button", name="Conversations").click()
    phone.get_by_role("button", name="New conversation").click()
    expect(phone.get_by_text("Ask the model something")).to_be_visible()
    assert _width(phone) <= PHONE_PX


def test_the_live_view_fits_a_phone(phone: Page) -> None:
    phone.get_by_role("link", name="Live").click()
    phone.get_by_role("heading", name="Throughput").wait_for()
    assert _width(phone) <= PHONE_PX
    phone.get_by_role("link", name=REQUEST_ID, exact=True).last.click()
    expect(phone.get_by_role("dialog")).to_contain_text("Its cache")
    assert _width(phone) <= PHONE_PX


def _nameless(page: Page) -> list[str]:
    """What can be reached and has no name that a screen reader could say."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("button, a, input, select, textarea, [role], [tabindex='0']")]
            .filter((each) => !each.ariaLabel && !each.textContent.trim() && !each.labels?.length && !each.title)
            .map((each) => each.outerHTML.slice(0, 80))"""
    )
    return found


def test_whatever_can_be_reached_has_a_name(page: Page, scripted: ScriptedServer) -> None:
    page.goto(scripted.url)
    ask(page, "call")
    page.get_by_role("button", name="Settings").click()
    assert _nameless(page) == []
    page.goto(f"{scripted.url}/#live/{REQUEST_ID}")
    expect(page.get_by_role("dialog")).to_contain_text("Its cache")
    assert _nameless(page) == []


def _contrasts(page: Page) -> dict[str, float]:
    """Of each colour of text with the sheet it stands on, as WCAG counts it."""
    found: dict[str, float] = page.evaluate(
        """() => {
            const light = (name) => {
                const pen = document.createElement("canvas").getContext("2d");
                pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
                const [r, g, b] = [1, 3, 5].map((at) => parseInt(pen.fillStyle.slice(at, at + 2), 16) / 255)
                    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
            };
            const contrast = (one, other) => {
                const [dark, bright] = [light(one), light(other)].sort((a, b) => a - b);
                return (bright + 0.05) / (dark + 0.05);
            };
            const names = ["--ink", "--quiet", "--accent", "--bad"];
            const series = ["--series-1", "--series-2", "--series-3", "--series-4"];
            return Object.fromEntries([...names, ...series].map((name) => [name, contrast(name, "--sheet")]));
        }"""
    )
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_can_be_told_from_the_page(chat: Page, scheme: str) -> None:
    chat.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    contrasts = _contrasts(chat)
    assert {name: value for name, value in contrasts.items() if value < (3.0 if "series" in name else 4.5)} == {}


def test_it_is_dark_when_the_browser_is_and_when_the_reader_says_so(chat: Page) -> None:
    chat.emulate_media(color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = chat.evaluate(background)
    assert dark == "rgb(20, 24, 26)"
    chat.get_by_role("button", name="Light or dark").click()
    assert chat.evaluate(background) != dark
    chat.reload()
    assert chat.evaluate(background) != dark
    chat.emulate_media(color_scheme="light")
    chat.get_by_role("button", name="Light or dark").click()
    assert chat.evaluate(background) == dark


def test_nothing_moves_for_who_wants_no_motion(chat: Page) -> None:
    chat.emulate_media(reduced_motion="reduce")
    moving = chat.evaluate(
        """() => {
            const waiting = Object.assign(document.createElement("p"), { className: "waiting" });
            document.body.append(waiting);
            const name = getComputedStyle(waiting, "::after").animationName;
            waiting.remove();
            return name;
        }"""
    )
    assert moving == "none"


@pytest.fixture(scope="module")
def keyed() -> Iterator[ScriptedServer]:
    with scripted_server("sk-of-the-tests") as server:
        yield server


def test_a_server_with_keys_asks_for_one(page: Page, keyed: ScriptedServer, complaints: Complaints) -> None:
    complaints.expected.add(401)
    page.goto(keyed.url)
    prompt = page.get_by_role("dialog")
    prompt.get_by_label("API key").fill("sk-wrong")
    page.keyboard.press("Enter")
    expect(prompt).to_contain_text("The server did not take this key")
    prompt.get_by_label("API key").fill("sk-of-the-tests")
    page.keyboard.press("Enter")
    expect(prompt).to_be_hidden()
    expect(ask(page, "hello")).to_contain_text("You said: hello")
    page.reload()  # the tab has it still
    page.get_by_role("link", name="Live").click()
    expect(page.get_by_role("status")).to_have_text("Live")


def test_what_can_be_no_key_is_not_kept(page: Page, keyed: ScriptedServer, complaints: Complaints) -> None:
    complaints.expected.add(401)
    page.goto(keyed.url)
    prompt = page.get_by_role("dialog")
    prompt.get_by_label("API key").fill("schlüssel \N{EM DASH} falsch")
    page.keyboard.press("Enter")
    assert page.evaluate("sessionStorage.length") == 0
    prompt.get_by_label("API key").fill(" sk-of-the-tests ")
    page.keyboard.press("Enter")
    expect(prompt).to_be_hidden()
    expect(ask(page, "hello")).to_contain_text("You said: hello")


def test_who_has_no_key_is_told(page: Page, keyed: ScriptedServer, complaints: Complaints) -> None:
    complaints.expected.add(401)
    page.goto(keyed.url)
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("alert")).to_contain_text("needs an API key")


def test_a_key_is_kept_by_its_tab_alone(
    page: Page, browser: Browser, keyed: ScriptedServer, complaints: Complaints
) -> None:
    complaints.expected.add(401)
    page.goto(keyed.url)
    page.get_by_role("dialog").get_by_label("API key").fill("sk-of-the-tests")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_hidden()
    other = page.context.new_page()
    other.set_default_timeout(TIMEOUT_MS)
    other.goto(keyed.url)
    expect(other.get_by_role("dialog")).to_be_visible()
    assert re.findall("sk-of", other.evaluate("JSON.stringify(localStorage)")) == []
