import pytest

from tailrace.guides.multiples import MAX_MULTIPLE, grammar_multiple, schema_multiple


@pytest.mark.parametrize(
    ("multiples", "together"),
    [
        ([], 1),
        ([12, 18.0], 36),
        ([0.01], 1),
        ([0.01, 5], 500),
        ([1e300], 10**300),
        ([1e-300], 1),
        ([0, float("nan"), "7", None], 1),
    ],
)
def test_multiples_come_to_what_they_have_in_common(multiples: list[object], together: int) -> None:
    schema = {"anyOf": [{"multipleOf": multiple} for multiple in multiples]}
    assert min(schema_multiple(schema), MAX_MULTIPLE + 1) == min(together, MAX_MULTIPLE + 1)


def test_schemas_in_a_grammar_count() -> None:
    assert grammar_multiple('start: %json {"multipleOf" : 4} | %json {"\\u006dultipleOf":6, "a": 1}') == 12
    assert grammar_multiple('start: %json {"multipleOf": 1e-999999999} %json {"multipleOf": -.-}') == 1
