"""What deltas say besides their text, gathered."""

import pytest

from tailrace.client.options import Call
from tailrace.client.said import Said, completion_of
from tailrace.errors import EngineError
from tailrace.service.api import CallDelta, ChoiceDelta, Usage
from tailrace.types import FinishReason
from tests.support.scripted_service import call, finish, thought, token

USAGE = Usage(7, 5, 4, reasoning_tokens=1)


def test_it_says_what_there_is_so_far() -> None:
    said = Said()
    assert (said.reasoning, said.calls) == ("", ())
    said.add("Hm", ())
    said.add("m.", [CallDelta(0, "", "c1", "look"), CallDelta(1, "{}", "c2", "wait")])
    said.add("", [CallDelta(0, "{")])
    assert said.reasoning == "Hmm."
    assert said.calls == (Call("look", "{", "c1"), Call("wait", "{}", "c2"))


def test_all_deltas_together_are_a_completion() -> None:
    deltas = [thought("Hm."), token("Hello"), call(0, "{}", name="look"), finish(reason=FinishReason.TOOL_CALLS)]
    completion = completion_of(deltas, USAGE)
    assert (completion.text, completion.reasoning) == ("Hello", "Hm.")
    assert (completion.token_ids, completion.finish_reason, completion.usage) == (
        (1, 1, 1),
        FinishReason.TOOL_CALLS,
        USAGE,
    )
    assert completion.message == {
        "role": "assistant",
        "content": "Hello",
        "reasoning_content": "Hm.",
        "tool_calls": [{"id": "call_0_0", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
    }
    assert completion_of([token("Hi"), finish()], USAGE).message == {"role": "assistant", "content": "Hi"}


@pytest.mark.parametrize(
    ("deltas", "reason"),
    [
        ([], "without a reason"),
        ([token("Hi")], "without a reason"),
        ([finish(reason=FinishReason.ERROR, error="it died")], "it died"),
    ],
)
def test_what_is_not_whole_is_no_completion(deltas: list[ChoiceDelta], reason: str) -> None:
    with pytest.raises(EngineError, match=reason):
        completion_of(deltas, USAGE)
