"""What one tag says, and when it is certain that it is none."""

import pytest

from tailrace.service.parsing.dsml_tags import CLOSING, OPENING, BadTag, Tag, read_tag, read_unfinished


@pytest.mark.parametrize(
    ("text", "kind", "attributes", "is_empty"),
    [
        ('invoke name="f">', "invoke", {"name": "f"}, False),
        (' invoke name="f">', "invoke", {"name": "f"}, False),
        ('invoke name="f"/>', "invoke", {"name": "f"}, True),
        ('parameter string="true"  name = "a>b" />', "parameter", {"string": "true", "name": "a>b"}, True),
        ("tool_calls>", "tool_calls", {}, False),
        (" calls>", "calls", {}, False),
    ],
)
def test_a_tag_is_complete_at_its_end_and_not_before(
    text: str, kind: str, attributes: dict[str, str], is_empty: bool
) -> None:
    for end in range(len(text)):
        assert read_tag(OPENING, text[:end]) is None
    assert read_tag(OPENING, text + "> rest") == Tag(kind, attributes, True, is_empty, len(text))


def test_a_tag_that_closes_needs_no_name() -> None:
    assert read_tag(CLOSING, "invoke>") == Tag("invoke", {}, False, False, 7)


@pytest.mark.parametrize(
    "text",
    [
        *("x", "  ", "invoke_", "invokes", "calls_", 'invoke nome="f">', 'invoke name="">', 'invoke name=" ">'),
        *("invoke name='f'>", "parameter>", 'invoke name="f>\n<｜DSML｜', 'invoke name="' + "n" * 257 + '">'),
        *('invoke name="' + "n" * 1012, "invoke" + " " * 1019),
    ],
)
def test_what_becomes_no_tag_is_known_at_the_character_that_shows_it(text: str) -> None:
    assert read_tag(OPENING, text[:-1]) is None
    with pytest.raises(BadTag):
        read_tag(OPENING, text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("par", ("", False, "")),
        ("parameter na", ("", False, "")),
        ('parameter name="ci', ("ci", False, "")),
        ('parameter name="city" str', ("city", True, "")),
        ('parameter string="no > x" name="city"', ("city", True, 'parameter string="no > x"')),
    ],
)
def test_a_tag_that_is_cut_off_has_said_this(text: str, said: tuple[str, bool, str]) -> None:
    assert read_unfinished(text) == said
