"""Where markers are, and what could still become one."""

import itertools

import pytest

from tailrace.service.parsing.markers import Cut, Markers, windows


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("plain", Cut("plain", "", "")),
        ("a<b", Cut("a<b", "", "")),
        ("a<end>b<end>", Cut("a", "<end>", "b<end>")),
        ("a<en", Cut("a", "", "<en")),
        ("a<e<", Cut("a<e", "", "<")),
        ("a<e<end>", Cut("a<e", "<end>", "")),
        ("", Cut("", "", "")),
    ],
)
def test_the_first_marker_and_what_could_become_one(text: str, cut: Cut) -> None:
    assert Markers("<end>", "<also>").cut(text) == cut


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("a\n\n\n<end>b", Cut("a\n", "<end>", "b")),
        ("a\n<end>", Cut("a", "<end>", "")),
        ("a\n\n\n", Cut("a\n", "", "\n\n")),
        ("a\n\n\n<en", Cut("a\n", "", "\n\n<en")),
        ("a\n b", Cut("a\n b", "", "")),
    ],
)
def test_line_ends_before_a_marker_are_of_it(text: str, cut: Cut) -> None:
    assert Markers("<end>", num_newlines=2).cut(text) == cut


def test_what_is_held_is_the_longest_end_that_begins_a_marker() -> None:
    markers = ("aab", "aba", "bb")
    for text in map("".join, itertools.product("ab", repeat=6)):
        cut = Markers(*markers).cut(text)
        assert cut.text + cut.marker + cut.rest == text
        if cut.marker:
            assert len(cut.text) == min(text.find(marker) for marker in markers if marker in text)
        else:
            ends = [text[at:] for at in range(len(text))]
            assert cut.rest == next((end for end in ends if any(marker.startswith(end) for marker in markers)), "")


def test_long_text_is_looked_at_in_windows() -> None:
    text = "0123456789" * 1000
    assert list(windows("short")) == ["short"]
    assert "".join(windows(text)) == text
    assert max(map(len, windows(text))) <= 1024
