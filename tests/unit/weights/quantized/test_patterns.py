"""Regular expressions of settings: what the standard library finds, found in time that is bounded."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.errors import UnsupportedModel
from tailrace.weights.quantized.patterns import Patterns

ATOMS = st.sampled_from(
    ["a", "b", ".", r"\.", "_", r"\d", r"\w", r"\S", "[ab]", "[^b.]", "[a-c0-1]", r"[\d_]", "^", "$"]
)
QUANTIFIERS = st.sampled_from(["", "", "", "*", "+", "?", "*?", "{2}", "{1,2}", "{1,}"])


def joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    group = st.builds(lambda inner, times: f"({inner}){times}", parts, QUANTIFIERS)
    plain = st.builds(lambda inner, times: f"(?:{inner}){times}", parts, QUANTIFIERS)
    return st.one_of(
        st.builds(lambda left, right: left + right, parts, parts),
        st.builds(lambda left, right: f"{left}|{right}", parts, parts),
        group,
        plain,
    )


SINGLE = st.builds(lambda atom, times: atom if atom in "^$" else atom + times, ATOMS, QUANTIFIERS)
PATTERNS = st.recursive(SINGLE, joined, max_leaves=8)
NAMES = st.text("ab.c01_", max_size=12)


@given(pattern=PATTERNS, names=st.lists(NAMES, max_size=8))
def test_a_name_matches_where_the_standard_library_says_so(pattern: str, names: list[str]) -> None:
    ours, known = Patterns([pattern], "config.json"), re.compile(pattern)
    assert [ours.match(name) for name in names] == [known.match(name) is not None for name in names]


@given(patterns=st.lists(PATTERNS, max_size=4), name=NAMES)
def test_any_of_several_will_do(patterns: list[str], name: str) -> None:
    assert Patterns(patterns, "config.json").match(name) == any(re.match(pattern, name) for pattern in patterns)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        (r".*lm_head", "lm_head", True),
        (r".*mlp\.gate$", "model.layers.3.mlp.gate", True),
        (r".*mlp\.gate$", "model.layers.3.mlp.gate_proj", False),
        (r".*mlp.experts.*.(gate|up|down)_proj", "model.layers.3.mlp.experts.17.up_proj", True),
        (r"model\.layers\.(0|1[0-9])\..*", "model.layers.13.self_attn.o_proj", True),
        (r"model\.layers\.(0|1[0-9])\..*", "model.layers.1.self_attn.o_proj", False),
        (r"[]a]+$", "a]", True),
    ],
)
def test_patterns_as_they_are_published(pattern: str, name: str, expected: bool) -> None:
    assert (re.match(pattern, name) is not None) == expected
    assert Patterns([pattern], "config.json").match(name) == expected


def test_patterns_that_would_take_forever_take_no_time() -> None:
    assert not Patterns(["(a+)+$", "(a|aa)*b", ".*.*.*.*.*.*x"], "config.json").match("a" * 5000 + "!")


def test_patterns_with_too_many_states_are_refused() -> None:
    patterns = Patterns(["(a|b)*a" + "(a|b)" * 40], "config.json")
    names = [f"{number:014b}".replace("0", "a").replace("1", "b") * 4 for number in range(1 << 14)]
    with pytest.raises(UnsupportedModel, match=r"config\.json: its patterns are too complicated"):
        all(patterns.match(name) is not None for name in names)


UNKNOWN = ["(?!a)b", "(?P<a>b)", "(?i)a", r"\b", r"\1", r"[a-\d]", "a**", "a*+"]
BROKEN = ["(", ")", "a)", "\\", "[a", "[", "[b-a]", "*", "+a", "a{", "a{3", "a{2,1}", "a{,2}", "a{x}", "{1}", "a|*"]
LARGE = ["a{99}", "a{1000}", "(a{64}){64}" * 2, "(" * 99 + ")" * 99]


@pytest.mark.parametrize(
    "pattern",
    UNKNOWN + BROKEN + LARGE,
)
def test_what_a_pattern_may_not_ask_for_is_refused_by_name(pattern: str) -> None:
    with pytest.raises(UnsupportedModel, match=r"config\.json: pattern .* is not one that we can match") as caught:
        Patterns([pattern], "config.json")
    assert repr(pattern[:80]) in str(caught.value)


def test_patterns_that_are_large_together_are_refused() -> None:
    patterns = [f"a{{60}}b{{{count % 60}}}" for count in range(2000)]
    assert Patterns(patterns[:100], "config.json").match("a" * 60)
    with pytest.raises(UnsupportedModel, match=r"config\.json: its patterns are too complicated"):
        Patterns(patterns, "config.json")
