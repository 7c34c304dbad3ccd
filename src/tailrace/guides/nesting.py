"""How deep a compiler of grammars has to go into one: it goes by recursion, and with a stack too short it takes the
process along."""

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["MAX_DEPTH", "MAX_LEVELS", "depth", "grammar_levels", "members", "schema_levels"]

MAX_DEPTH = 64  # of a schema, without what its references lead to
MAX_LEVELS = 1500  # a stack of 8 MB holds twice as many of the largest


def depth(value: Any) -> int:
    """How deep lists and objects of JSON are nested. Looks no deeper than it has to."""
    found, level = 0, [value]
    while level and found <= MAX_DEPTH:
        found += any(isinstance(each, Mapping | list) for each in level)
        level = [inner for each in level for inner in _parts(each)]
    return found


def schema_levels(schema: Mapping[str, Any]) -> int:
    """At most so many are open at once: each reference is followed once, and might be inside of all others."""
    places = {str(value) for key, value in members(schema) if key == "$ref"}
    return depth(schema) + sum(depth(_at(schema, place)) for place in places)


def grammar_levels(grammar: str) -> int:
    """At most so many in a grammar in Lark, each rule of which may name another, and each bracket hold others."""
    rules = sum(":" in line for line in grammar.split("\n"))
    return rules + sum(map(grammar.count, "([{"))


def members(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """All keys in a schema, however deep, with what they have."""
    level: list[Any] = [schema]
    while level:
        for each in level:
            if isinstance(each, Mapping):
                yield from each.items()
        level = [inner for each in level for inner in _parts(each)]


def _parts(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list) else []


def _at(schema: Mapping[str, Any], place: str) -> Any:
    """What a reference leads to; the whole schema, where that is not clear."""
    value: Any = schema
    for name in place.removeprefix("#/").split("/"):
        value = value.get(name) if isinstance(value, Mapping) else None
    return schema if value is None else value
