"""The object of a call, whose members may be bound to some."""

import pytest

from tailrace.service.parsing.call_object import CallObject, Members, Progress
from tailrace.service.parsing.segments import CallBegins, CallGoesOn

STRICT = Members(arguments=("parameters", "arguments"), others=("type",))


def test_what_is_behind_the_object_is_not_read() -> None:
    call = CallObject(3, Members(("arguments",)))
    assert call.feed('{"name": "f", "arguments": {}} and') == [CallBegins(3, "f"), CallGoesOn(3, "{}")]
    assert (call.progress, call.rest, call.is_call) == (Progress.ENDED, " and", True)


def test_with_known_members_alone_a_name_without_arguments_says_nothing() -> None:
    call = CallObject(0, STRICT)
    assert call.feed('{"type": "function", "name": "f", ') == []
    assert call.feed('"parameters": [') == [CallBegins(0, "f"), CallGoesOn(0, "[")]


@pytest.mark.parametrize(
    "text", ['{"name": "f"}', '{"names', '{"x', '{"type": 1, "y', '{"parameters": {}}', "{}", "[", '{"name": "f", "c']
)
def test_with_known_members_alone_others_are_no_call(text: str) -> None:
    call = CallObject(0, STRICT)
    assert call.feed(text[:-1]) == []
    before = call.progress
    assert call.feed(text[-1]) == []
    assert (before, call.progress) == (Progress.READING, Progress.FAILED)
    assert call.answer + call.rest == text
