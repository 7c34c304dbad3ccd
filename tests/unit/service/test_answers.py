"""Answers as DeepSeek's models write them, in the tokens of their tokenizer: what of them is what, token by token."""

from dataclasses import dataclass

import pytest

from tailrace.service.answer_form import AnswerForm
from tailrace.service.api import ChoiceDelta
from tailrace.service.choice import Choice
from tailrace.service.choice_rules import ChoiceRules
from tailrace.service.detokenize import TokenTexts
from tailrace.service.formats.format import ReasoningTags
from tailrace.service.parsing.build import machine_factory, markup_strings
from tailrace.types import FinishReason
from tests.support.deepseek import deepseek_tokenizer
from tests.support.text import events_of

EOS = 1
V31_CALL = "<｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
DSML_CALL = (
    '<｜DSML｜invoke name="get_weather">\n'
    '<｜DSML｜parameter name="city" string="true">{}</｜DSML｜parameter>\n'
    '<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>\n'
    "</｜DSML｜invoke>\n"
)


@dataclass(frozen=True)
class Said:
    """An answer of a style of calls, and what there is in it: each call with its name and its arguments."""

    style: str
    text: str
    opened: str = ""
    reasoning: str = ""
    answer: str = ""
    calls: tuple[str, ...] = ()


R1_CALL = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{}\n```<｜tool▁call▁end｜>"
SAID = [
    Said("deepseek_v3", "Hm, 中文 😀\n</think>\n\nHello! 😀", "<think>\n", "Hm, 中文 😀\n", "Hello! 😀"),
    Said("deepseek_v3", "<think>\nHm.\n</think>\n\nHello.", "", "Hm.\n", "Hello."),
    Said(
        "deepseek_v3",
        "Let me see.<｜tool▁calls▁begin｜>"
        + R1_CALL.replace("{}", '{"city": "Lyon"}')
        + "\n"
        + R1_CALL.replace("{}", '{"city": "Kraków"}')
        + "<｜tool▁calls▁end｜>",
        "",
        "",
        "Let me see.",
        ('get_weather{"city": "Lyon"}', 'get_weather{"city": "Kraków"}'),
    ),
    Said("deepseek_v31", "Hello.", "</think>", "", "Hello."),
    Said(
        "deepseek_v31",
        "Two cities.<｜tool▁calls▁begin｜>"
        + V31_CALL.replace("{}", '{"city": "Lyon"}')
        + V31_CALL.replace("{}", '{"city": "</think>"}')
        + "<｜tool▁calls▁end｜>",
        "<think>",
        "Two cities.",
        "",
        ('get_weather{"city": "Lyon"}', 'get_weather{"city": "</think>"}'),
    ),
    *[
        Said(
            style,
            f"Two cities.</think>Let me see.\n\n<｜DSML｜{block}>\n"
            + DSML_CALL.replace("{}", 'the "city"')
            + DSML_CALL.replace("{}", "Kraków")
            + f"</｜DSML｜{block}>",
            "<think>",
            "Two cities.",
            "Let me see.",
            ('get_weather{"city": "the \\"city\\"", "days": 3}', 'get_weather{"city": "Kraków", "days": 3}'),
        )
        for style, block in (("deepseek_v32", "function_calls"), ("deepseek_v4", "tool_calls"))
    ],
]


def calls_of(deltas: list[ChoiceDelta]) -> tuple[str, ...]:
    calls: dict[int, str] = {}
    for call in [call for delta in deltas for call in delta.calls]:
        calls[call.index] = calls.get(call.index, "") + call.name + call.arguments
    return tuple(calls.values())


@pytest.mark.parametrize("said", SAID, ids=lambda said: f"{said.style} {said.text[:12]}")
@pytest.mark.parametrize("skip_special_tokens", [True, False])
def test_tokens_of_an_answer_are_taken_apart(said: Said, skip_special_tokens: bool) -> None:
    tokenizer = deepseek_tokenizer()
    form = AnswerForm("any", said.opened, has_tools=True)
    markup = markup_strings(ReasoningTags(), said.style, form)
    texts = TokenTexts(tokenizer.vocabulary, skip_special_tokens=skip_special_tokens, markup=markup)
    machine = machine_factory(ReasoningTags(), said.style, form, (), include_stop=False)
    choice = Choice(0, ChoiceRules(texts, machine=machine))
    token_ids = [*tokenizer.encode(said.text, allow_control=True), EOS]
    deltas = [delta for event in events_of(token_ids, FinishReason.STOP) for delta in choice.feed([event])]
    assert "".join([delta.reasoning for delta in deltas]) == said.reasoning
    assert "".join([delta.text for delta in deltas]) == said.answer
    assert calls_of(deltas) == said.calls
    assert [i for delta in deltas for i in delta.token_ids] == token_ids
    assert deltas[-1].finish_reason is (FinishReason.TOOL_CALLS if said.calls else FinishReason.STOP)
    assert (choice.num_reasoning_tokens > 0) is bool(said.reasoning)
