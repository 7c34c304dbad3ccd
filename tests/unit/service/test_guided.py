"""What clients ask for, as grammars: what they allow, what is refused, and that calls are read back as written."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from tailrace.errors import InvalidRequest
from tailrace.guides.guided import Guided
from tailrace.guides.vocabulary import GuideVocabulary, TokenTable
from tailrace.service.formats.call_grammar import CALL_STYLES
from tailrace.service.formats.format import ReasoningTags
from tailrace.service.guided import GuideMaker, Wanted, wants_guide
from tailrace.service.output_format import OutputFormat, OutputKind
from tailrace.service.parsing.segments import AnswerPiece, CallBegins, CallGoesOn
from tailrace.service.parsing.tools import TOOL_STYLES, call_stage
from tailrace.service.tools import Tool, ToolChoice, ToolMode
from tailrace.types import Guide
from tests.support.deepseek import deepseek_tokenizer
from tests.unit.guides.small_vocabulary import WORDS, allowed_ids

TAGS = ReasoningTags()
MARKUP = (
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁sep｜>",
)
TOKENS = [bytes([byte]) for byte in range(256)] + [
    word.encode() for word in WORDS if word not in ("<think>", "</think>")
]
SPECIALS = {
    name: len(TOKENS) + place for place, name in enumerate([*MARKUP, "<think>", "</think>", "｜DSML｜", "<end>"])
}
END = SPECIALS["<end>"]
ALL_TOKENS = [*TOKENS, *(name.encode() for name in SPECIALS)]


def vocabulary(specials: dict[str, int]) -> GuideVocabulary:
    """The same ids without these tokens where they are no special ones: their texts have to be spelled."""
    tokens = [*TOKENS, *(name.encode() if specials or name == "<end>" else b"" for name in SPECIALS)]
    return GuideVocabulary(lambda: TokenTable(tokens, frozenset({*specials.values(), END}), (END,)), len(tokens))


WITH_SPECIALS, WITHOUT = vocabulary(SPECIALS), vocabulary({})
MAKER = GuideMaker(WITH_SPECIALS, SPECIALS.get)

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "unit": {"enum": ["c", 'f"']}},
    "required": ["city", "unit"],
    "additionalProperties": False,
}
NESTED = {
    "type": "object",
    "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    "properties": {"a": {}, "b": {"$ref": "#/$defs/n"}},
    "$defs": {"n": {"type": "null"}},
}
TOOLS = (Tool("get_weather", parameters=CITY), Tool("now"), Tool("pick", parameters=NESTED))
STYLES = sorted(set(CALL_STYLES) & set(TOOL_STYLES))


def said(guide: Guide, max_tokens: int, seed: int, words: GuideVocabulary = WITH_SPECIALS) -> str:
    """What a model says that draws among the allowed tokens, and ends where it may."""
    guided, rng = Guided(words, guide, max_tokens), random.Random(seed)
    mask, token_ids = np.zeros(words.num_words, np.uint32), list[int]()
    while len(token_ids) < max_tokens and not guided.is_finished:
        guided.fill(mask)
        allowed = allowed_ids(mask)
        token_id = END if END in allowed and rng.random() < 0.3 else rng.choice(allowed)
        token_ids.append(guided.offer(token_id, max_tokens - len(token_ids) - 1))
    assert guided.allows_end
    return b"".join(ALL_TOKENS[token_id] for token_id in token_ids if token_id != END).decode()


def made(wanted: Wanted, max_tokens: int = 200) -> Guide:
    guide = MAKER.make(wanted, max_tokens)
    assert guide is not None
    return guide


def form(kind: OutputKind, text: str = "", choices: Sequence[str] = ()) -> OutputFormat:
    return OutputFormat(kind, text, tuple(choices))


JSON = form(OutputKind.JSON_OBJECT)


def test_an_answer_is_free_unless_something_is_asked_of_it() -> None:
    assert MAKER.make(Wanted(), 1) is None
    assert MAKER.make(Wanted(tools=TOOLS, tool_style="hermes"), 1) is None
    assert not wants_guide(Wanted(tools=(Tool("f", strict=True),), tool_choice=ToolChoice(ToolMode.NONE)))
    assert wants_guide(Wanted(tools=(Tool("f", strict=True),), tool_style="hermes"))


def test_spaces_that_belong_to_a_schema_are_kept() -> None:
    guide = MAKER.make(Wanted(OutputFormat(OutputKind.JSON_SCHEMA, '{"const": "two  spaces"}')), 64)
    assert guide is not None
    assert said(guide, 64, seed=1) == '"two  spaces"'


@pytest.mark.parametrize("seed", range(4))
def test_each_format_is_followed(seed: int) -> None:
    max_tokens = 8 + 6 * seed
    assert isinstance(json.loads(said(made(Wanted(JSON), max_tokens), max_tokens, seed)), dict)
    schema = {"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": ["integer", "null"]}}}
    wanted = Wanted(form(OutputKind.JSON_SCHEMA, json.dumps(schema)))
    Draft202012Validator(schema).validate(json.loads(said(made(wanted), max_tokens, seed)))
    assert said(made(Wanted(form(OutputKind.CHOICE, choices=("yes", 'n"o')))), max_tokens, seed) in {"yes", 'n"o'}
    assert set(said(made(Wanted(form(OutputKind.REGEX, "(ab/)+"))), max_tokens, seed)) == set("ab/")
    lark = form(OutputKind.GRAMMAR, 'start: "(" start ")" | "x"')
    text = said(made(Wanted(lark)), max_tokens, seed)
    assert text.strip("()") == "x"
    assert text.count("(") == text.count(")")


@pytest.mark.parametrize("words", [WITH_SPECIALS, WITHOUT])
@pytest.mark.parametrize("opened", ["", "<think>", "<think>\n"])
def test_the_format_begins_behind_the_reasoning(words: GuideVocabulary, opened: str) -> None:
    maker = GuideMaker(words, SPECIALS.get if words is WITH_SPECIALS else lambda text: None)
    for seed in range(4):
        guide = maker.make(Wanted(JSON, reasoning=TAGS, opened=opened), 30)
        assert guide is not None
        text = opened + said(guide, 30, seed, words)
        assert text.startswith("<think>") or not opened
        assert isinstance(json.loads(text.rpartition("</think>")[2]), dict)


def test_without_reasoning_the_format_begins_at_once() -> None:
    assert said(made(Wanted(JSON, reasoning=TAGS, opened="</think>"), 2), 2, 0)[0] == "{"
    with pytest.raises(InvalidRequest, match="begun") as refused:
        made(Wanted(JSON, reasoning=TAGS, opened="</think>So "))
    assert refused.value.param == "response_format"


@pytest.mark.parametrize("is_parallel", [True, False])
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("words", [WITH_SPECIALS, WITHOUT])
def test_calls_that_a_grammar_allows_are_read_back(words: GuideVocabulary, style: str, is_parallel: bool) -> None:
    maker = GuideMaker(words, SPECIALS.get if words is WITH_SPECIALS else lambda text: None)
    choice = ToolChoice(ToolMode.REQUIRED, is_parallel=is_parallel)
    guide = maker.make(Wanted(None, TOOLS, choice, TAGS, style, "</think>"), 400)
    assert guide is not None
    for seed in range(2):
        calls, answer = read(style, said(guide, 200 + 50 * seed, seed, words))
        assert answer == ""
        assert len(calls) >= 1 if is_parallel else len(calls) == 1
        for name, arguments in calls:
            schema = next(tool.parameters for tool in TOOLS if tool.name == name)
            Draft202012Validator(schema).validate(json.loads(arguments or "{}"))


def read(style: str, text: str) -> tuple[list[tuple[str, str]], str]:
    stage, calls, answer = call_stage(style), list[tuple[str, str]](), ""
    for segment in [*stage.feed(text), *stage.finish()]:
        match segment:
            case CallBegins(_, name):
                calls.append((name, ""))
            case CallGoesOn(number, arguments):
                calls[number] = (calls[number][0], calls[number][1] + arguments)
            case AnswerPiece(piece):
                answer += piece
    return calls, answer


def test_a_named_function_is_the_one_that_is_called() -> None:
    choice = ToolChoice(ToolMode.REQUIRED, "now", is_parallel=False)
    text = said(made(Wanted(None, TOOLS, choice, TAGS, "deepseek_v31", "</think>")), 60, 1)
    assert [name for name, _ in read("deepseek_v31", text)[0]] == ["now"]
    with pytest.raises(InvalidRequest, match="none of the tools"):
        made(Wanted(None, TOOLS, replace(choice, name="nobody"), TAGS, "deepseek_v31", "</think>"))


@pytest.mark.parametrize("style", STYLES)
def test_strict_tools_may_be_called_and_need_not_be(style: str) -> None:
    strict = tuple(replace(tool, strict=True) for tool in TOOLS)
    for seed in range(3):
        calls, _ = read(style, said(made(Wanted(None, strict, ToolChoice(), TAGS, style, "</think>")), 60, seed))
        for name, arguments in calls:
            schema = next(tool.parameters for tool in TOOLS if tool.name == name)
            Draft202012Validator(schema).validate(json.loads(arguments or "{}"))


def chained(length: int) -> dict[str, object]:
    """A schema in which each definition leads to the next."""
    defs: dict[str, object] = {
        f"d{i}": {"type": "object", "properties": {"x": {"$ref": f"#/$defs/d{i + 1}"}}} for i in range(length)
    }
    return {"$defs": {**defs, f"d{length}": {"type": "string"}}, "$ref": "#/$defs/d0"}


@pytest.mark.parametrize(
    ("output_format", "reason"),
    [
        (form(OutputKind.JSON_SCHEMA, "{"), "no JSON"),
        (form(OutputKind.JSON_SCHEMA, "[]"), "object"),
        (form(OutputKind.JSON_SCHEMA, '{"type": "object", "dependentSchemas": {"a": {}}}'), "dependentSchemas"),
        (form(OutputKind.JSON_SCHEMA, '{"$ref": "https://example.org/x.json"}'), "registry"),
        (form(OutputKind.JSON_SCHEMA, '{"not":' * 100 + "{}" + "}" * 100), "nested"),
        (form(OutputKind.JSON_SCHEMA, "[" * 100_000), "no JSON"),
        (form(OutputKind.JSON_SCHEMA, '{"enum": ["' + "a" * (1 << 18) + '"]}'), "characters"),
        (form(OutputKind.REGEX, "(a"), "regex"),
        (form(OutputKind.REGEX, "(" * 5000), "regex"),
        (form(OutputKind.GRAMMAR, "start: nobody"), "unknown"),
        (form(OutputKind.GRAMMAR, "root ::= ((("), "GBNF"),
        (
            form(OutputKind.GRAMMAR, "start: r0" + "".join(f"\nr{i}: r{i + 1}" for i in range(1600))),
            "rules and brackets",
        ),
        (form(OutputKind.JSON_SCHEMA, json.dumps(chained(550))), "references"),
        (form(OutputKind.JSON_SCHEMA, '{"type": "integer", "multipleOf": 100003}'), "multipleOf"),
        (form(OutputKind.GRAMMAR, 'start: %json {"type": "integer", "multipleO\\u0066": 100003}'), "multipleOf"),
        (form(OutputKind.CHOICE), "few"),
        (form(OutputKind.CHOICE, choices=["a"] * 5000), "many"),
    ],
)
def test_a_format_that_cannot_be_followed_is_refused(output_format: OutputFormat, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason) as refused:
        made(Wanted(output_format))
    assert refused.value.param == "response_format"


def test_reasons_are_short_and_in_a_line() -> None:
    with pytest.raises(InvalidRequest) as refused:
        made(Wanted(form(OutputKind.GRAMMAR, "start: a\n" + 'a: "x" ' * 3000)))
    assert len(str(refused.value)) < 400
    assert "\n" not in str(refused.value)


def test_arguments_nested_too_deeply_are_refused() -> None:
    schema: dict[str, object] = {"type": "string"}
    for _ in range(400):
        schema = {"type": "object", "properties": {"x": schema}}
    tools = (Tool("deep", parameters=schema),)
    with pytest.raises(InvalidRequest, match="nested more than 64") as refused:
        made(Wanted(tools=tools, tool_choice=ToolChoice(ToolMode.REQUIRED), tool_style="hermes"))
    assert refused.value.param == "tools"


@pytest.mark.parametrize(
    ("output_format", "reason"),
    [
        (form(OutputKind.REGEX, "(a"), "unclosed group"),
        (form(OutputKind.REGEX, "(" * 5000), "invalid regex"),
        (form(OutputKind.GRAMMAR, "start: nobody"), 'unknown name: "nobody"$'),
        (form(OutputKind.JSON_SCHEMA, '{"$ref": "#/$defs/nobody"}'), r"Pointer '/\$defs/nobody' does not exist$"),
    ],
)
def test_a_refusal_is_one_line_about_the_client_s_own_text(output_format: OutputFormat, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason) as refused:
        made(Wanted(output_format))
    said = str(refused.value)
    assert "\n" not in said
    assert "llguidance" not in said
    assert len(said) < 400


@pytest.mark.parametrize(
    "expression",
    [".*x", r".+@.+\.com", r"(.|\n)*END", "[^~]*~", r"\p{L}+[日本]{2}", r"Answer: .+ \(done\)", ".*.*.*é{2}"],
)
def test_an_end_is_found_that_looks_like_the_text_before_it(expression: str) -> None:
    pattern = json.dumps({"type": "object", "properties": {"a": {"pattern": expression, "type": "string"}}})
    required = pattern[:-1] + ', "required": ["a"]}'
    assert made(Wanted(form(OutputKind.REGEX, expression)), 40)
    assert made(Wanted(form(OutputKind.GRAMMAR, f"start: WORD\nWORD: /{expression}/")), 40)
    assert made(Wanted(form(OutputKind.JSON_SCHEMA, required)), 60)


def test_too_few_tokens_are_refused_with_how_many_it_takes() -> None:
    schema = json.dumps({"type": "array", "minItems": 20, "items": {"type": "integer"}})
    with pytest.raises(
        InvalidRequest, match=r"max_tokens is 5; the shortest answer of this format takes about \d+"
    ) as refused:
        made(Wanted(form(OutputKind.JSON_SCHEMA, schema)), 5)
    assert refused.value.param == "max_tokens"


@pytest.mark.parametrize("hostile", ["(a{1000}){1000}", r"(\w{200}){200}", "((a*)*)*b{500000}"])
def test_what_hardly_ends_is_refused(hostile: str) -> None:
    with pytest.raises(InvalidRequest, match="no end of an answer in this format was found"):
        made(Wanted(form(OutputKind.REGEX, hostile)))


def test_what_does_not_go_together_is_refused_by_name() -> None:
    required = ToolChoice(ToolMode.REQUIRED)
    with pytest.raises(InvalidRequest, match="tool_choice demands a call"):
        made(Wanted(JSON, TOOLS, required, TAGS, "hermes", "</think>"))
    with pytest.raises(InvalidRequest, match="JSON as answers are"):
        made(Wanted(JSON, TOOLS, ToolChoice(), TAGS, "llama3", "</think>"))
    with pytest.raises(InvalidRequest, match="no style of calls"):
        made(Wanted(None, TOOLS, required, TAGS, "", "</think>"))


def test_with_a_format_an_answer_follows_it_or_is_calls() -> None:
    guide = made(Wanted(JSON, TOOLS, ToolChoice(), TAGS, "deepseek_v31", "</think>"))
    for seed in range(4):
        text = said(guide, 80, seed)
        calls, answer = read("deepseek_v31", text)
        assert bool(calls) != bool(answer)
        assert isinstance(json.loads(answer or "{}"), dict)


def test_a_schema_that_cannot_be_followed_binds_only_strict_tools() -> None:
    tool = Tool("f", parameters={"type": "object", "dependentSchemas": {"a": {}}})
    required = ToolChoice(ToolMode.REQUIRED)
    assert made(Wanted(None, (tool,), required, TAGS, "hermes", "</think>"))
    with pytest.raises(InvalidRequest, match="dependentSchemas"):
        made(Wanted(None, (replace(tool, strict=True),), required, TAGS, "hermes", "</think>"))


def test_all_markup_of_deepseek_is_no_text_of_a_grammar() -> None:
    """Most of it is shown to clients, so that it is not hidden does not mean that an answer in a format may have it."""
    tokenizer = deepseek_tokenizer()
    assert {*MARKUP, "<think>", "</think>", "｜DSML｜"} <= tokenizer.markup_ids.keys()
    assert all(tokenizer.vocabulary.added[text] == token_id for text, token_id in tokenizer.markup_ids.items())
