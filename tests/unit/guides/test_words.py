import re

import pytest

from tailrace.guides.endings import noted_endings, with_endings
from tailrace.guides.words import fixed_texts, lark_of, lark_texts, lazy_until, literal, regex_terminal, renamed
from tests.unit.guides.small_vocabulary import encoded, small_vocabulary

VOCABULARY = small_vocabulary()


def takes(grammar: str, text: str) -> bool:
    matcher = VOCABULARY.compile(grammar)
    token_ids = encoded(text)
    return matcher.try_consume_tokens(token_ids) == len(token_ids) and matcher.is_accepting()


@pytest.mark.parametrize("text", ['a"b', "a\\nb", "a\nb", "é日本", "/", "\t{}[]<>", "\u2028"])
def test_a_literal_is_that_text_and_no_other(text: str) -> None:
    assert takes(f"start: {literal(text)}", text)
    assert not takes(f"start: {literal(text)}", text + "x")


@pytest.mark.parametrize("end", ["</think>", "</｜DSML｜parameter>", "a.b", "[x]", "\n```"])
def test_a_lazy_text_ends_at_the_first_end(end: str) -> None:
    grammar = f'start: text "!"\ntext[lazy]: {lazy_until(end)}'
    assert takes(grammar, f"the\nb{end}!")
    assert not takes(grammar, f"the{end}{end}!")
    assert not takes(grammar, "the aXb xx!")


@pytest.mark.parametrize(
    ("expression", "text"),
    [(r"\d+/x", "12/x"), (r"a|b\|", "b|"), (r"[/\"]+", '/"'), (r"(?i)AB", "ab"), (r"\w{2}\s", "ab ")],
)
def test_an_expression_means_what_it_means_elsewhere(expression: str, text: str) -> None:
    assert re.fullmatch(expression, text)
    assert takes(f"start: x\nx: {regex_terminal(expression)}", text)
    assert not takes(f"start: x\nx: {regex_terminal(expression)}", text + "~~")


def test_a_grammar_of_llama_cpp_is_turned_into_lark() -> None:
    grammar = lark_of('root ::= "a" (root | "b") "c"\n')
    assert takes(grammar, "aabcc")
    assert not takes(grammar, "aabc")
    with pytest.raises(ValueError, match=r"\S"):
        lark_of("root ::= (((")


def test_the_first_rule_is_renamed_and_texts_are_not() -> None:
    grammar = renamed('start: "start" /start / again\nagain: start | "e" // start\n', "first")
    assert grammar == 'first: "start" /start / again\nagain: first | "e" // start\n'
    assert renamed("start-1: start_2 my_start", "x") == "start-1: start_2 my_start"


def test_endings_are_noted_in_a_comment() -> None:
    noted = with_endings('start: "a"', ("</think>", 'é"\n'))
    assert noted_endings(noted) == ("</think>", 'é"\n')
    assert takes(noted, "a")
    assert with_endings("start: /a/", ()) == "start: /a/"
    assert noted_endings("start: /a/") == ()


@pytest.mark.parametrize(
    ("expression", "texts"),
    [
        (r".+@.+\.com", ["@", ".com"]),
        (r"(.|\n)*END", ["END"]),
        (r"[^~]*~", ["~"]),
        (r"\p{L}+[日本]{2}", ["日"]),
        (r"(?i)abc?d\x{41}e{3}", ["ab", "d", "eee"]),
        (r"", []),
        ("x" * 65, []),
        ("a|" + "[" * 5000, ["a"]),
    ],
)
def test_of_an_expression_its_fixed_texts_are_known(expression: str, texts: list[str]) -> None:
    assert fixed_texts(expression) == texts
    assert lark_texts(f'start: WORD "/x/"\nWORD: /{expression}/ // /y/') == (texts if expression else [])
