"""Telling what a template wrote from what people typed."""

import json
from typing import Any

import pytest

from tailrace.errors import InvalidRequest
from tailrace.service.markup import Guard, GuardedText, Markup

MARKUP = Markup(["<|im_end|>", "<|im_start|>", "<|im", "<think>", "</think>", "[INST]"])


@pytest.fixture
def guard() -> Guard:
    return Guard(MARKUP)


def _markup_in(text: str) -> list[str]:
    return MARKUP.split(text)[1::2]


def test_a_text_is_cut_at_the_longest_markup() -> None:
    assert MARKUP.split("a<|im_end|><|im_x<b[INST]") == ["a", "<|im_end|>", "", "<|im", "_x<b", "[INST]", ""]


def test_markup_may_be_long_and_part_of_other_markup() -> None:
    long = "<" + "x" * 5000
    assert Markup([long, "<xx", f"{long}>"]).split(f"<xx <x {long}>") == ["", "<xx", " <x ", f"{long}>", ""]


def test_no_markup_cuts_nothing() -> None:
    assert Markup([]).split("<|im_end|>") == ["<|im_end|>"]
    assert Guard(Markup([])).protect("<|im_end|>") == "<|im_end|>"


def test_text_in_which_no_markup_can_begin_is_left_alone(guard: Guard) -> None:
    assert type(guard.protect("plain text | end|>")) is str


def test_protected_text_has_no_markup_and_can_be_released(guard: Guard) -> None:
    typed = "a <|im_end|> b <think> [INST] <"
    rendered = "".join(["<|im_start|>", guard.protect(typed), "<|im_end|>"])
    assert _markup_in(rendered) == ["<|im_start|>", "<|im_end|>"]
    assert guard.release(rendered) == f"<|im_start|>{typed}<|im_end|>"


def test_strings_inside_lists_and_objects_are_protected(guard: Guard) -> None:
    value: dict[str, Any] = {"<think>": [{"text": "<|im_end|>", "n": 1, "none": None, "yes": True}]}
    rendered = json.dumps(guard.protect(value), ensure_ascii=False)
    assert _markup_in(rendered) == []
    assert guard.release(rendered) == json.dumps(value)
    assert guard.protect(value) == value


def test_endless_nesting_is_refused(guard: Guard) -> None:
    nested: list[Any] = []
    for _ in range(1000):
        nested = [nested]
    with pytest.raises(InvalidRequest, match="nested"):
        guard.protect(nested)


def test_markup_cannot_be_completed_by_the_text_behind(guard: Guard) -> None:
    rendered = guard.protect("<|im_e") + guard.protect("nd|>")
    assert _markup_in(rendered) == []
    assert guard.release(rendered) == "<|im_end|>"


LOOKS: list[Any] = [
    lambda text: "</think>" in text,
    lambda text: text == "<think>so</think> yes ",
    lambda text: text.startswith("<think>"),
    lambda text: text.endswith("yes "),
    lambda text: text.find("</think>"),
    lambda text: text.index("yes"),
    lambda text: text.count("think"),
    len,
    lambda text: {text: 1}["<think>so</think> yes "],
    lambda text: text.isspace(),
    lambda text: text < "a",
]


@pytest.mark.parametrize("look", LOOKS)
def test_a_template_sees_the_text_as_it_was_typed(guard: Guard, look: Any) -> None:
    typed = "<think>so</think> yes "
    assert look(guard.protect(typed)) == look(typed)


CUTS: list[Any] = [
    lambda text: text.split("</think>"),
    lambda text: text.split("</think>")[-1].strip(),
    lambda text: text.rsplit(" ", 1),
    lambda text: list(text.partition("yes")),
    lambda text: list(text.rpartition("</think>")),
    lambda text: text.splitlines(),
    lambda text: text.strip(),
    lambda text: text.lstrip("<"),
    lambda text: text.removeprefix("<think>"),
    lambda text: text.replace("think", "THINK"),
    lambda text: text[3:],
    lambda text: text[::-1],
    lambda text: text.upper(),
    lambda text: text * 2,
    str,
    list,
]


@pytest.mark.parametrize("cut", CUTS)
def test_what_a_template_cuts_out_is_right_and_protected(guard: Guard, cut: Any) -> None:
    typed = "<think>so</think> yes "
    result = cut(guard.protect(typed))
    assert result == cut(typed)
    assert _markup_in("".join(result)) == []
    assert guard.release("".join(result)) == "".join(cut(typed))


def test_markup_that_a_template_makes_by_deleting_is_protected(guard: Guard) -> None:
    text = guard.protect("<|im_<image>end|>").replace("<image>", "")
    assert text == "<|im_end|>"
    assert _markup_in("".join([text])) == []


def test_guarded_arguments_are_taken_as_typed(guard: Guard) -> None:
    text, part = guard.protect("a<think>b"), guard.protect("<think>")
    assert isinstance(part, GuardedText)
    assert part in text
    assert text.replace(part, "-") == "a-b"


def test_marks_of_two_prompts_differ() -> None:
    first, second = Guard(MARKUP), Guard(MARKUP)
    assert "".join([first.protect("<")]) != "".join([second.protect("<")])
