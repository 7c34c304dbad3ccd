"""Whether and how much to think: three places to say so, which must agree."""

import pytest

from tailrace.errors import InvalidRequest
from tailrace.frontends.thinking import EFFORTS, ThinkingWish, thinking_wish


def test_who_says_nothing_leaves_it_to_the_format() -> None:
    assert thinking_wish(None, None) == ThinkingWish(None, None)
    assert thinking_wish(None, None, {"thinking": None, "other": 1}) == ThinkingWish(None, None)


@pytest.mark.parametrize("is_on", [True, False])
def test_each_place_turns_it_on_or_off(is_on: bool) -> None:
    wish = ThinkingWish(is_on)
    assert thinking_wish(is_on, None) == wish
    assert thinking_wish(None, None, {"thinking": is_on}) == wish
    assert thinking_wish(None, None, {"enable_thinking": is_on}) == wish
    assert thinking_wish(is_on, None, {"enable_thinking": is_on, "thinking": is_on}) == wish


@pytest.mark.parametrize("effort", [each for each in EFFORTS if each != "none"])
def test_an_effort_alone_does_not_turn_it_on(effort: str) -> None:
    assert thinking_wish(None, effort) == ThinkingWish(None, effort)
    assert thinking_wish(None, None, {"reasoning_effort": effort}) == ThinkingWish(None, effort)
    assert thinking_wish(True, effort) == ThinkingWish(True, effort)


def test_no_effort_is_no_thinking() -> None:
    assert thinking_wish(None, "none") == ThinkingWish(False)
    assert thinking_wish(False, "none") == ThinkingWish(False)
    assert thinking_wish(None, None, {"reasoning_effort": "none"}) == ThinkingWish(False)


def test_words_that_only_a_template_knows_are_left_to_it() -> None:
    assert thinking_wish(None, None, {"reasoning_effort": 75}) == ThinkingWish()
    assert thinking_wish(None, "low", {"reasoning_effort": "leisurely"}) == ThinkingWish(None, "low")


@pytest.mark.parametrize(
    ("thinking", "effort", "args", "param"),
    [
        (True, "none", {}, "reasoning_effort"),
        (False, "high", {}, "reasoning_effort"),
        (True, None, {"thinking": False}, "chat_template_kwargs.thinking"),
        (None, None, {"thinking": True, "enable_thinking": False}, "chat_template_kwargs.enable_thinking"),
        (None, "low", {"reasoning_effort": "high"}, "chat_template_kwargs.reasoning_effort"),
        (None, "none", {"enable_thinking": True}, "reasoning_effort"),
        (None, "max", {"enable_thinking": False}, "reasoning_effort"),
        (None, "a lot", {}, "reasoning_effort"),
        (None, None, {"thinking": "yes"}, "chat_template_kwargs.thinking"),
    ],
)
def test_what_contradicts_itself_is_refused_by_name(
    thinking: bool | None, effort: str | None, args: dict[str, object], param: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        thinking_wish(thinking, effort, args)
    assert caught.value.param == param
    assert param in str(caught.value)


def test_complaints_call_fields_as_the_client_does() -> None:
    with pytest.raises(InvalidRequest) as caught:
        thinking_wish(True, "none", effort_param="reasoning.effort")
    assert caught.value.param == "reasoning.effort"
    with pytest.raises(InvalidRequest, match=r"thinking\.type"):
        thinking_wish(True, "none", thinking_param="thinking.type")
