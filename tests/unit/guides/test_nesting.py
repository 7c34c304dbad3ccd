from typing import Any

from tailrace.guides.nesting import MAX_DEPTH, depth, grammar_levels, schema_levels


def nested(levels: int, inner: Any) -> Any:
    for _ in range(levels):
        inner = {"not": inner}
    return inner


def test_lists_and_objects_are_counted_as_deep_as_they_lie() -> None:
    values: list[Any] = [1, {}, [[]], {"a": [{"b": 1}], "c": 2}]
    assert [depth(value) for value in values] == [0, 1, 2, 3]
    assert depth(nested(100_000, 1)) == MAX_DEPTH + 1  # deep enough


def test_what_references_lead_to_counts_once_for_each() -> None:
    item = {"$ref": "#/$defs/a"}
    schema = {"$defs": {"a": nested(4, {"$ref": "#/$defs/b"}), "b": nested(2, {})}, "anyOf": [item, item]}

    assert schema_levels(schema) == 7 + 5 + 3
    assert schema_levels({"$ref": "elsewhere"}) == 1 + 1  # it may be anything: as much as there is


def test_each_rule_and_each_bracket_of_a_grammar_counts() -> None:
    assert grammar_levels('start: a [b]\na: ("x" | "y")\nb: %json {"type": "null"}') == 3 + 3
