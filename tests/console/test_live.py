"""The live view in a real browser, before a feed whose numbers are known."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.console.conftest import Complaints
from tests.console.frames import REQUEST_ID
from tests.console.scripted_server import ScriptedServer


def _panel(page: Page, title: str) -> Locator:
    return page.get_by_role("region", name=title)


def _row(page: Page, panel: str, name: str) -> Locator:
    return _panel(page, panel).get_by_role("row").filter(has=page.get_by_role("rowheader", name=name, exact=True))


def _hide(page: Page) -> None:
    """As when the reader goes to another tab; headless pages are never hidden by themselves."""
    _set_visibility(page, "hidden")


def _set_visibility(page: Page, state: str) -> None:
    page.evaluate(
        """(state) => {
            Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        state,
    )


def test_the_headline_says_which_server_it_is_and_moves(live: Page) -> None:
    expect(live.get_by_role("status")).to_have_text("Live")
    expect(live.get_by_text(re.compile(r"tiny · Tailrace 0\.0\.0 · up 1 h.* · 2 API processes"))).to_be_visible()
    rate = live.locator(".tiles div").filter(has_text="output tok/s").locator("dd")
    first = rate.inner_text()
    assert 100 <= float(first) <= 220
    expect(rate).not_to_have_text(first)


def test_charts_are_drawn(live: Page) -> None:
    expect(live.locator(".chart canvas")).to_have_count(4)
    live.wait_for_timeout(500)  # two frames make a line
    painted = live.locator(".chart canvas").first.evaluate(
        "(canvas) => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some((v) => v > 0)"
    )
    assert painted


def test_an_event_is_a_mark_on_the_charts(live: Page) -> None:
    red = """(canvas) => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        let count = 0;
        for (let at = 0; at < data.length; at += 4) count += data[at] === 179 && data[at + 1] === 38;
        return count;
    }"""
    charts = live.locator(".chart canvas")
    live.wait_for_timeout(500)  # two frames
    assert all(charts.nth(place).evaluate(red) > 50 for place in range(4))  # a line as high as the chart


def test_times_stand_against_the_targets_of_their_class(live: Page) -> None:
    gold = _row(live, "Service classes", "gold")
    expect(gold).to_contain_text("15.0 ms")  # 0.3 of 50 ms
    expect(gold).to_contain_text("97%")
    _panel(live, "Service classes").get_by_role("radio", name="bronze").check()
    expect(live.get_by_role("heading", name="Time between tokens, bronze")).to_be_visible()
    expect(_panel(live, "Service classes").locator(".legend", has_text="target").last).to_contain_text("500 ms")


def test_a_late_class_is_marked_in_words_and_not_in_colour_alone(live: Page) -> None:
    late = _panel(live, "Service classes").locator(".late")
    expect(late.first).to_contain_text("▲")  # the feed's load takes gold beyond its target


def test_levels_say_what_they_hold_and_give(live: Page) -> None:
    host = _row(live, "KV cache", "host").first
    expect(host).to_contain_text("126 MB / 268 MB")
    expect(host).to_contain_text("12%")
    expect(_row(live, "KV cache", "redis").first).to_contain_text("down")
    expect(_panel(live, "KV cache").get_by_text("idle, to be found again")).to_contain_text("58")


def test_the_heat_map_goes_from_red_to_green_and_has_numbers(live: Page) -> None:
    cells = live.locator(".heat tbody tr").first.locator("td")
    expect(cells).to_have_count(24)
    assert cells.first.inner_text() == ""  # nothing was asked then
    shares = [int(text) for text in cells.all_inner_texts() if text]
    hues = cells.evaluate_all(
        "(all) => all.map((cell) => cell.style.getPropertyValue('--hue')).filter(Boolean).map(Number)"
    )
    assert len(shares) == 18
    assert all(abs(hue - 1.2 * share) <= 1.2 for share, hue in zip(shares, hues, strict=True))


def test_a_step_is_described_in_words(live: Page) -> None:
    steps = live.get_by_role("slider", name="Step")
    steps.focus()
    words = _panel(live, "Steps").locator(".chosen-step")
    for _ in range(8):  # one in eight has a prompt
        live.keyboard.press("ArrowLeft")
        if "192 prompt tokens" in words.inner_text():
            break
    expect(words).to_contain_text(re.compile(r"Step \d+ took 2\d\.\d ms, predicted 2\d\.\d ms: 7 decodes"))
    expect(words).to_contain_text("of req-a (128)")
    expect(words.get_by_role("link", name=REQUEST_ID)).to_be_visible()
    number = words.locator(".number").inner_text()
    live.keyboard.press("ArrowRight")
    expect(words.locator(".number")).to_have_text(str(int(number) + 1))
    live.keyboard.press("Escape")
    expect(words).to_contain_text("steps, the longest")


def test_the_engine_and_the_ceilings_are_shown(live: Page) -> None:
    expect(_panel(live, "Engine").locator(".legend", has_text="compute")).to_contain_text("68%")
    expect(_panel(live, "Engine").get_by_text("× 1.30")).to_be_visible()
    expect(_panel(live, "Roofline")).to_contain_text("the memory's bandwidth: 81%")
    expect(_panel(live, "Roofline")).to_contain_text("More than 100%")  # linear, and why that may be
    expect(_row(live, "Roofline", "attention")).to_contain_text("44%")


def test_events_are_listed_newest_first(live: Page) -> None:
    events = _panel(live, "Events").get_by_role("listitem")
    expect(events).to_have_count(2)
    expect(events.first).to_contain_text("rule_fired")


def test_a_request_can_be_opened(live: Page) -> None:
    _panel(live, "Requests").get_by_role("link", name=REQUEST_ID, exact=True).click()
    life = live.get_by_role("dialog")
    expect(life).to_contain_text("Up to its first token: 303 ms")
    expect(life).to_contain_text("All of it: 1.50 s")
    expect(life.get_by_role("listitem").filter(has_text="prompt of 400")).to_contain_text("80.0 ms")
    expect(life).to_contain_text("512 needed no computing: 384 lay in the engine's memory, 128 came from the host")
    expect(life).to_contain_text("other requests needed the room")
    live.keyboard.press("Escape")
    expect(life).to_have_count(0)
    expect(live).to_have_url(re.compile("#live$"))


def test_a_request_that_is_gone_says_so(live: Page, complaints: Complaints) -> None:
    complaints.expected.add(404)
    live.evaluate("location.hash = '#live/long-gone'")
    expect(live.get_by_role("dialog").get_by_role("alert")).to_contain_text("is not known, or not any more")


def test_who_does_not_look_costs_nothing(live: Page, scripted: ScriptedServer) -> None:
    assert scripted.feed.num_open == 1
    _hide(live)
    scripted.wait_for_feeds(0)
    expect(live.get_by_role("status")).to_have_text("Paused")
    _set_visibility(live, "visible")
    expect(live.get_by_role("status")).to_have_text("Live")
    live.get_by_role("link", name="Chat").click()
    scripted.wait_for_feeds(0)


def test_the_page_says_when_the_server_is_gone_and_comes_back(live: Page, scripted: ScriptedServer) -> None:
    scripted.feed.is_silent = True
    try:
        expect(live.get_by_role("status")).to_contain_text("Lost; trying again")
    finally:
        scripted.feed.is_silent = False
    expect(live.get_by_role("status")).to_have_text("Live")


@pytest.mark.parametrize(("seconds", "words"), [(0.00412, "4.12 ms"), (0, "0 s"), (3720, "1 h 2 min"), (60, "60.0 s")])
def test_times_are_written_as_people_read_them(live: Page, seconds: float, words: str) -> None:
    said = live.evaluate("async (s) => (await import('/console/static/format.js')).seconds(s)", seconds)
    assert said == words


def test_history_is_bounded_and_starts_again_with_the_engine(live: Page) -> None:
    kept = live.evaluate(
        """async () => {
            const { NO_HISTORY, withFrame, withGap, line } = await import("/console/static/live/history.js");
            const step = (id) => ({ id, ago_s: 0, took_s: 0.01, prompts: [] });
            const events = [{ at_s: 1_790_000_000, message: "m" }];
            const frame = (n) => ({ rates: { r: n }, classes: [], steps: [step(2 * n), step(2 * n + 1)], events });
            let history = NO_HISTORY;
            for (let n = 0; n < 1000; n += 1) history = withFrame(history, frame(n), n, -1_789_999_000);
            const before = { points: history.points.length, steps: history.steps.length };
            history = withFrame(withGap(history, 1000), frame(3), 1001, -1_789_999_000);
            const last = line(history.points, ({ rates }) => rates.r).slice(-3);
            return { before, last, ids: history.steps.map(({ id }) => id), marks: history.marks };
        }"""
    )
    assert kept == {
        "before": {"points": 600, "steps": 600},
        "last": [999, None, 3],
        "ids": [6, 7],
        "marks": [{"atS": 1000, "words": "m"}],
    }


def test_a_life_that_nobody_answers_for_is_asked_for_again(live: Page, complaints: Complaints) -> None:
    live.route("**/console/requests/*", lambda route: route.abort(), times=1)
    live.goto(live.url.partition("#")[0] + f"#live/{REQUEST_ID}")
    life = live.get_by_role("dialog")
    expect(life).to_contain_text("All of it: 1.50 s")
    expect(life.get_by_role("alert")).to_have_count(0)
    assert complaints.texts.pop().endswith("net::ERR_FAILED")
