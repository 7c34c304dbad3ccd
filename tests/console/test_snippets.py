"""What is copied from under an answer runs as it stands, whatever was asked."""

import ast
import json
import shlex
import subprocess
import sys
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.console.chatting import ask
from tests.console.scripted_server import ScriptedServer

HOSTILE = """It's "quoted" `id` $HOME $(id) \\ \\n %s {x} — 🌊 </script> '''"""


def _copied(page: Page, given: Locator, button: str) -> str:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    given.get_by_role("button", name=button, exact=True).click()
    expect(given.get_by_text("Copied")).to_be_visible()
    return str(page.evaluate("navigator.clipboard.readText()"))


def _ask_with_settings(page: Page) -> Locator:
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("Temperature").fill("0.5")
    page.get_by_label("Stop at").fill("it's the end")
    page.get_by_label("Thinking").select_option("Off")
    return ask(page, HOSTILE)


def _wanted(page: Page) -> dict[str, Any]:
    return {
        "model": "tiny",
        "messages": [{"role": "user", "content": HOSTILE}],
        "temperature": 0.5,
        "stop": ["it's the end"],
        "thinking": {"type": "disabled"},
    }


def test_curl_gets_the_request_through_a_shell(chat: Page, scripted: ScriptedServer) -> None:
    words = shlex.split(_copied(chat, _ask_with_settings(chat), "curl").replace("\\\n", ""))
    assert words[0] == "curl"
    assert f"{scripted.url}/v1/chat/completions" in words
    body = json.loads(words[words.index("-d") + 1])
    assert body == {**_wanted(chat), "stream": True, "stream_options": {"include_usage": True}}


def test_python_has_the_same_request_in_it(chat: Page) -> None:
    code = _copied(chat, _ask_with_settings(chat), "Python")
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    (create,) = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "create"]
    given = {str(each.arg): ast.literal_eval(each.value) for each in create.keywords}
    own = given.pop("extra_body")
    assert {**given, **own} == {**_wanted(chat), "stream": True}


def test_python_runs(chat: Page) -> None:
    code = _copied(chat, ask(chat, HOSTILE), "Python")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"You said: {HOSTILE}"


def test_an_answer_is_copied_as_it_was_written(chat: Page) -> None:
    assert _copied(chat, ask(chat, HOSTILE), "Copy") == f"You said: {HOSTILE}"


def test_with_a_key_it_is_read_from_the_environment_and_never_copied(chat: Page) -> None:
    curl, python = chat.evaluate(
        """async () => {
            const { curl, python } = await import("/console/static/chat/snippet.js");
            const body = { model: "m", messages: [], stream: true };
            return [curl(body, "http://here", true), python(body, "http://here", true)];
        }"""
    )
    assert '"Authorization: Bearer $TAILRACE_API_KEY"' in curl
    assert 'os.environ["TAILRACE_API_KEY"]' in python
