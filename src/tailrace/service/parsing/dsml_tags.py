"""DSML, the tags in which V3.2 and V4 write calls: what one says, and whether what has come so far can become one.

The block of calls is `function_calls` in V3.2 and `tool_calls` in V4; V4.1 says ` calls`, with a space before the
name of each tag.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["BLOCK_NAMES", "CLOSING", "OPENING", "BadTag", "Tag", "Unfinished", "read_tag", "read_unfinished"]

_TOKEN = "｜DSML｜"
OPENING, CLOSING = f"<{_TOKEN}", f"</{_TOKEN}"
BLOCK_NAMES = ("function_calls", "tool_calls", "calls")

_MAX_TAG_CHARACTERS = 1024
_MAX_NAME_CHARACTERS = 256
_NAMED = ("invoke", "parameter")
_WORDS = tuple(space + name for name in (*_NAMED, *BLOCK_NAMES) for space in ("", " "))
_WORD = re.compile(" ?[a-z_]*")
_TO_END = re.compile(r'(?:[^">]|"[^"]*")*+>')  # an attribute may have a ">" in it
_ATTRIBUTE = re.compile(r'([a-z]+)\s*=\s*"([^"]*)"')
_NAME_SO_FAR = re.compile(r'\sname\s*=\s*"([^"]*)("?)')
_MARKUP = re.compile(r'[a-z_\s="/]*')


@dataclass(frozen=True, slots=True)
class Tag:
    """`num_characters` of the text are it, behind what opens it."""

    kind: str
    attributes: Mapping[str, str]
    is_opening: bool
    is_empty: bool
    num_characters: int

    @property
    def name(self) -> str:
        return self.attributes.get("name", "").strip()


class Unfinished(NamedTuple):
    """What a tag that is cut off says: of its name, whether that is whole, and besides, if it is more than markup."""

    name: str
    is_whole: bool
    rest: str


class BadTag(Exception):
    """What stands there will not become a tag."""


def read_tag(opening: str, text: str) -> Tag | None:
    """The tag that goes on so, behind OPENING or CLOSING; None until it is complete."""
    word = _read_word(text)
    found = _TO_END.match(text)
    end = found.end() if found else len(text)
    if end > _MAX_TAG_CHARACTERS or _TOKEN in text[:end]:
        raise BadTag
    if found is None:
        return None
    attributes = dict(_ATTRIBUTE.findall(text, len(word), end))
    tag = Tag(word.strip(), attributes, opening == OPENING, text.endswith("/>", 0, end), end)
    if tag.is_opening and tag.kind in _NAMED and not 0 < len(tag.name) <= _MAX_NAME_CHARACTERS:
        raise BadTag
    return tag


def _read_word(text: str) -> str:
    """The word that makes the tag, or its beginning."""
    found = _WORD.match(text)
    word = found[0] if found else ""
    is_whole = len(word) < len(text)
    if word not in _WORDS if is_whole else not any(each.startswith(word) for each in _WORDS):
        raise BadTag
    return word


def read_unfinished(text: str) -> Unfinished:
    found = _NAME_SO_FAR.search(text)
    rest = text if found is None else text[: found.start()] + text[found.end() :]
    rest = "" if _MARKUP.fullmatch(rest) else rest
    return Unfinished(found[1], bool(found[2]), rest) if found else Unfinished("", False, rest)
