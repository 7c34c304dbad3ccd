"""Whatever a model draws, and however early `max_tokens` ends it, the answer is whole."""

import json
import random
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tailrace.guides.guided import Guided
from tailrace.guides.reserve import Reserve
from tailrace.types import Guide
from tests.unit.guides.small_vocabulary import END, ID, TOKENS, allowed_ids, decoded, encoded, small_vocabulary

VOCABULARY = small_vocabulary()


def answer(
    grammar: str, max_tokens: int, rng: random.Random, greed: str = "", *, is_prepared: bool = False
) -> tuple[str, Guided]:
    """What a model says that draws among the allowed tokens, tokens with a byte of `greed` before others."""
    guided = Guided(VOCABULARY, Guide(grammar), max_tokens)
    if is_prepared:
        guided.prepare()
    mask, token_ids = np.zeros(VOCABULARY.num_words, np.uint32), list[int]()
    while len(token_ids) < max_tokens and not guided.is_finished:
        guided.fill(mask)
        allowed = allowed_ids(mask)
        liked = [token_id for token_id in allowed if any(byte in TOKENS[token_id] for byte in greed.encode())]
        token_ids.append(guided.offer(rng.choice(liked or allowed), max_tokens - len(token_ids) - 1))
    return decoded(token_ids), guided


def least(grammar: str) -> int:
    shortest = Reserve(VOCABULARY, grammar).shortest(200)
    assert shortest is not None
    return shortest


@st.composite
def schemas(draw: st.DrawFn, depth: int = 2) -> dict[str, object]:
    kinds = ["string", "integer", "boolean", "enum", "null"] + (["array", "object", "anyOf"] if depth else [])
    match draw(st.sampled_from(kinds)):
        case "string":
            return {"type": "string", "minLength": draw(st.integers(0, 12))}
        case "enum":
            return {"enum": draw(st.lists(st.text('abé"', max_size=9), min_size=1, max_size=3, unique=True))}
        case "array":
            return {"type": "array", "items": draw(schemas(depth - 1)), "minItems": draw(st.integers(0, 4))}
        case "anyOf":
            return {"anyOf": [draw(schemas(depth - 1)), draw(schemas(depth - 1))]}
        case "object":
            names = draw(st.lists(st.sampled_from(["name", "age", "tags", "x"]), max_size=3, unique=True))
            required = names[: draw(st.integers(0, len(names)))]
            properties = {name: draw(schemas(depth - 1)) for name in names}
            return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
        case kind:
            return {"type": kind}


@settings(max_examples=25, deadline=None)
@given(schemas(), st.integers(0, 12), st.sampled_from(["", '{["', "a1", " \n"]), st.randoms(use_true_random=False))
def test_an_answer_cut_anywhere_is_valid(schema: dict[str, object], more: int, greed: str, rng: random.Random) -> None:
    grammar = f"start: %json {json.dumps(schema)}"
    text, guided = answer(grammar, least(grammar) + more, rng, greed)
    Draft202012Validator(schema).validate(json.loads(text))
    assert guided.allows_end


@pytest.mark.parametrize("expression", ["a*b", "(ab|12)+c?", "[a-z]{3,9}", "日本*é", "(the )*end[.!]"])
@pytest.mark.parametrize("more", range(5))
def test_a_text_cut_anywhere_matches_its_expression(expression: str, more: int) -> None:
    grammar = f"start: /{expression}/"
    text, _ = answer(grammar, least(grammar) + more, random.Random(more))
    assert re.fullmatch(expression, text)


@pytest.mark.parametrize("more", range(6))
def test_brackets_that_were_opened_are_closed(more: int) -> None:
    grammar = 'start: expr\nexpr: "(" expr ")" | "[" expr "]" expr | /[0-9]/'
    text, guided = answer(grammar, 8 + more, random.Random(more), greed="([")
    assert text.count("(") == text.count(")")
    assert text.count("[") == text.count("]")
    assert guided.is_cut


def test_a_choice_is_one_of_the_choices() -> None:
    choices = ["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", "abc", "é"]
    grammar = "start: " + " | ".join(json.dumps(choice) for choice in choices)
    assert least(grammar) == 1
    drawn = {answer(grammar, n, random.Random(seed))[0] for n in (1, 2, 7) for seed in range(5)}
    assert drawn <= set(choices)


def test_a_long_part_is_not_begun_where_it_cannot_end() -> None:
    """The array is optional, and one token opens it."""
    items = {"type": "array", "items": {"type": "integer"}, "minItems": 40}
    schema = {"type": "object", "properties": {"tags": items}, "additionalProperties": False}
    for max_tokens in (2, 30, 100):
        text, _ = answer(f"start: %json {json.dumps(schema)}", max_tokens, random.Random(1), greed='"[')
        Draft202012Validator(schema).validate(json.loads(text))


def test_an_answer_that_ends_by_itself_is_not_cut() -> None:
    text, guided = answer("start: /ab/", 10, random.Random(0))
    assert (text, guided.is_cut, guided.is_finished) == ("ab", False, True)


def test_the_end_of_reasoning_is_found_by_its_note() -> None:
    grammar = '// endings: ["</think>"]\nstart: think %json {"type": "object"}\nthink[lazy]: /(.|\\n)*<\\/think>/'
    for max_tokens in range(least(grammar), 12):
        text, _ = answer(grammar, max_tokens, random.Random(max_tokens), greed="t")
        _, end, rest = text.partition("</think>")
        assert end
        json.loads(rest)


def test_an_answer_taken_up_again_goes_on_as_it_would_have() -> None:
    grammar = 'start: %json {"type": "array", "items": {"type": "integer"}, "minItems": 3}'
    begun = encoded("[1,2")
    guided = Guided(VOCABULARY, Guide(grammar), len(begun) + 3, begun)
    rest = [guided.offer(ID[b"2"], num_left) for num_left in (2, 1, 0)]
    assert len(json.loads("[1,2" + decoded(rest))) >= 3
    assert guided.is_cut


def test_the_end_may_be_offered_when_the_answer_is_whole() -> None:
    guided = Guided(VOCABULARY, Guide("start: /ab*/"), 5, encoded("a"))
    assert guided.offer(END, 3) == END
    assert guided.is_finished
    assert not guided.is_cut


def test_far_from_the_end_no_closing_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = list[int]()
    look = Reserve.look

    def counted(reserve: Reserve, max_tokens: int) -> int | None:
        looks.append(max_tokens)
        return look(reserve, max_tokens)

    monkeypatch.setattr(Reserve, "look", counted)
    answer('start: %json {"type": "array"}', 3000, random.Random(2), greed="1")
    assert 0 < len(looks) < 300


def test_the_first_closing_may_be_searched_for_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    guided = Guided(VOCABULARY, Guide("start: /[a-z]{3,9}/"), 400)
    guided.prepare()
    monkeypatch.setattr(Reserve, "look", lambda *_: pytest.fail("it was searched for again"))
    token_id = encoded("a")[0]

    assert guided.offer(token_id, 399) == token_id


@pytest.mark.parametrize("spare", range(4))
def test_an_answer_that_was_prepared_is_whole_from_its_first_token(spare: int) -> None:
    grammar = r"start: /a|b[a-z ]{2,9}!/"
    for seed in range(8):
        text, guided = answer(grammar, least(grammar) + spare, random.Random(seed), "b", is_prepared=True)
        assert re.fullmatch(r"a|b[a-z ]{2,9}!", text)
        assert guided.is_cut or len(text) > 3
