"""The page has words for all that the server may tell it."""

import re

import pytest

from tailrace.frontends.http.console.files import page_files
from tailrace.telemetry.life_parts import FIRST_TOKEN_PARTS
from tailrace.types import Level, MissReason


def keys_in(path: str) -> set[str]:
    """Of the tables in a module of the page."""
    return set(re.findall(r"^\s+(\w+): ", page_files()[path].content.decode(), re.MULTILINE))


def test_every_reason_for_a_miss_and_every_level_has_its_sentence() -> None:
    assert {*map(str, MissReason), *map(str, Level)} <= keys_in("live/cache_words.js")


@pytest.mark.parametrize("part", [*FIRST_TOKEN_PARTS, "decode"])
def test_every_part_of_a_life_has_its_colour(part: str) -> None:
    assert part in keys_in("live/life.js")
