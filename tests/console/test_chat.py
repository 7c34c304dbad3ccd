"""The chat in a real browser: what a reader sees of a stream, and that stopping it reaches the server."""

import json
import re
import time
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.console.chatting import answer, ask, field
from tests.console.conftest import Complaints
from tests.console.scripted_server import ScriptedServer

_HOSTILE = '<script>alert("no")</script><img src=x onerror=alert(1)>'


def test_an_answer_streams_and_says_what_it_took(chat: Page) -> None:
    given = ask(chat, "hello there")
    expect(given).to_contain_text("You said: hello there")
    facts = given.locator(".facts").inner_text()
    assert re.search(r"TTFT [\d.]+ ms", facts)
    assert re.search(r"[\d.]+ tok/s", facts)
    assert "4 tokens" in facts
    assert "prompt 7, cached 4 (engine 1, host 3), rest evicted" in facts
    assert "silver" in facts


def test_markdown_is_drawn_and_markup_of_the_model_is_text(chat: Page) -> None:
    given = ask(chat, "markdown")
    expect(given.get_by_role("heading", name="A title")).to_be_visible()
    expect(given.get_by_role("listitem")).to_have_count(2)
    expect(given.get_by_role("cell", name="2")).to_be_visible()
    expect(given).to_contain_text(_HOSTILE)
    assert given.locator("img, script, [onerror]").count() == 0
    expect(given.get_by_role("link", name="a picture")).to_have_attribute("href", "https://example.com/picture.png")
    assert given.locator("a[href^=javascript]").count() == 0


def test_a_stream_and_its_whole_look_the_same(chat: Page) -> None:
    given = ask(chat, "markdown")
    streamed = given.locator(".markdown").inner_text()
    chat.reload()
    assert answer(chat).locator(".markdown").inner_text() == streamed


def test_a_long_answer_is_drawn_whole(chat: Page) -> None:
    given = ask(chat, "long")
    expect(given.get_by_role("paragraph").filter(has_text="A sentence of seven words is here.")).to_have_count(800)


def test_stopping_an_answer_reaches_the_server(chat: Page, scripted: ScriptedServer) -> None:
    field(chat).fill("endless")
    field(chat).press("Enter")
    expect(answer(chat)).to_contain_text("word word word")
    chat.get_by_role("button", name="Stop").click()
    stream = scripted.service.streams[-1]  # `closings` counts those of other tests too
    ends_s = time.monotonic() + 10.0
    while not stream.num_closed:
        assert time.monotonic() < ends_s, "the server computes on"
        time.sleep(0.01)
    expect(answer(chat).locator(".facts")).to_contain_text("stopped")
    expect(answer(chat).locator(".facts")).to_contain_text(re.compile(r"about \d+ tokens"))


def test_an_answer_can_be_asked_for_again(chat: Page, scripted: ScriptedServer) -> None:
    ask(chat, "first")
    num_before = len(scripted.service.generations)
    chat.get_by_role("button", name="Regenerate").click()
    expect(answer(chat).locator(".facts")).to_contain_text("stop")
    expect(chat.get_by_role("article", name="Answer")).to_have_count(1)
    assert len(scripted.service.generations) == num_before + 1
    again, before = scripted.service.generations[-1], scripted.service.generations[-2]
    assert again.prompt == before.prompt


def test_the_last_question_can_be_put_differently(chat: Page) -> None:
    ask(chat, "first")
    chat.get_by_role("article", name="Question").hover()
    chat.get_by_role("button", name="Edit").click()
    chat.get_by_role("textbox", name="The question in other words").fill("second")
    chat.keyboard.press("Enter")
    expect(answer(chat)).to_contain_text("You said: second")
    expect(chat.get_by_role("article", name="Question")).to_have_count(1)


def test_thoughts_are_open_while_they_come_and_folded_behind_the_answer(chat: Page) -> None:
    given = ask(chat, "think")
    thoughts = given.locator("details")
    expect(thoughts).not_to_have_attribute("open", re.compile(".*"))
    thoughts.locator("summary").click()
    expect(thoughts).to_contain_text("Let me see.")
    expect(given).to_contain_text("It is 42.")


def test_a_call_of_a_tool_is_a_box(chat: Page) -> None:
    given = ask(chat, "call")
    expect(given.locator(".call")).to_contain_text("weather")
    expect(given.locator(".call pre")).to_have_text('{\n  "city": "Ulm"\n}')


def test_a_refusal_says_when_to_come_back(chat: Page, complaints: Complaints) -> None:
    complaints.expected.add(429)
    chat.clock.install()
    given = ask(chat, "refuse")
    expect(given.get_by_role("alert")).to_contain_text("the queue of bronze is full")
    expect(given.get_by_role("button", name=re.compile(r"Try again in \d+ s"))).to_be_disabled()
    chat.clock.fast_forward("10:00")
    given.get_by_role("button", name="Try again", exact=True).click()
    expect(answer(chat).get_by_role("button", name=re.compile(r"Try again in \d+ s"))).to_be_disabled()


def test_a_question_that_was_refused_does_not_spoil_those_after_it(
    chat: Page, scripted: ScriptedServer, complaints: Complaints
) -> None:
    complaints.expected.add(429)
    ask(chat, "first")
    ask(chat, "refuse")
    expect(ask(chat, "second")).to_contain_text("You said: second")
    sent = getattr(scripted.service.generations[-1].prompt, "messages", [])
    assert [each["content"] for each in sent if each["role"] == "user"] == ["first", "second"]


def test_an_answer_that_breaks_off_keeps_what_there_is(chat: Page) -> None:
    given = ask(chat, "break")
    expect(given).to_contain_text("Half of it")
    expect(given.get_by_role("alert")).to_be_visible()


def test_settings_reach_the_server(chat: Page, scripted: ScriptedServer) -> None:
    chat.get_by_role("button", name="Settings").click()
    chat.get_by_label("System prompt").fill("Be brief.")
    chat.get_by_label("Temperature").fill("0.3")
    chat.get_by_label("Top p").fill("0.9")
    chat.get_by_label("Most tokens").fill("99")
    chat.get_by_label("Seed").fill("7")
    chat.get_by_label("Stop at").fill("END\nFINIS")
    chat.get_by_label("Service class").select_option("bronze")
    chat.get_by_label("Thinking").select_option("On")
    given = ask(chat, "hello")
    sent = scripted.service.generations[-1]
    sampling = sent.sampling
    assert (sampling.temperature, sampling.top_p, sampling.max_tokens, sent.seed) == (0.3, 0.9, 99, 7)
    assert sent.stop == ("END", "FINIS")
    assert sent.standing.class_name == "bronze"
    assert getattr(sent.prompt, "thinking", None) is True
    assert [each["role"] for each in getattr(sent.prompt, "messages", [])] == ["system", "user"]
    expect(given.locator(".facts")).to_contain_text("bronze")


def test_conversations_outlive_the_page_and_can_be_deleted(chat: Page, tmp_path: Path) -> None:
    ask(chat, "about rivers")
    chat.get_by_role("button", name="New conversation").click()
    ask(chat, "about dams")
    chat.reload()
    shelf = chat.get_by_role("navigation", name="Conversations")
    expect(shelf.get_by_role("listitem")).to_have_count(2)
    shelf.get_by_role("button", name="about rivers", exact=True).click()
    expect(answer(chat)).to_contain_text("You said: about rivers")
    with chat.expect_download() as download:
        chat.get_by_role("button", name="Export as JSON").click()
    exported = json.loads(download.value.path().read_text())
    assert [each["messages"][0]["text"] for each in exported["conversations"]] == ["about dams", "about rivers"]
    shelf.get_by_role("button", name="Delete “about dams”").click()
    expect(shelf.get_by_role("listitem")).to_have_count(1)


def test_what_is_kept_is_bounded(chat: Page) -> None:
    kept = chat.evaluate(
        """async () => {
            const { keep, keptConversations } = await import("/console/static/chat/shelf.js");
            for (let n = 0; n < 60; n += 1) keep({ id: `c${n}`, changedMs: n, messages: [] });
            keep({ id: "large", changedMs: 100, messages: [{ role: "user", text: "x".repeat(1_900_000) }] });
            keep({ id: "larger", changedMs: 101, messages: [{ role: "user", text: "x".repeat(1_000_000) }] });
            return keptConversations().map((each) => each.id);
        }"""
    )
    assert kept == ["larger"]
