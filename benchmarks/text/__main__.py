"""Measures what taking an answer apart costs: microseconds of CPU that a choice spends on each token, by what it says.

Every token arrives alone. `plain` is an answer that nothing is looked for in; all others have reasoning and calls of
a style looked for, or stop strings. The cases take turns, and the median of their rounds counts.

    python -m benchmarks.text [--tokens N] [--rounds N] [--json]
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median

from benchmarks.serving.machine import describe_machine
from benchmarks.text.answers import CALLS, PROSE, REASONING, STOPS, answer_tokens, make_tokenizer
from tailrace.service.answer_form import ALL_TEXT, AnswerForm
from tailrace.service.choice import Choice
from tailrace.service.choice_rules import ChoiceRules
from tailrace.service.detokenize import TokenTexts
from tailrace.service.formats.format import ReasoningTags
from tailrace.service.parsing.build import machine_factory
from tailrace.service.tokenizer import Tokenizer
from tailrace.types import TokenEvent

_STYLE = "deepseek_v31"  # where there are no calls


@dataclass(frozen=True)
class Case:
    """What is looked for in an answer, and its tokens."""

    name: str
    rules: ChoiceRules
    batches: Sequence[tuple[TokenEvent]]

    def cost_us(self) -> float:
        """Of a token."""
        choice = Choice(0, self.rules)
        started_s = time.process_time()
        for batch in self.batches:
            choice.feed(batch)
        return 1e6 * (time.process_time() - started_s) / len(self.batches)


@dataclass(frozen=True)
class Figures:
    """Microseconds of CPU a token, by case."""

    machine: str
    tokens: int
    costs: dict[str, float]


def rules(tokenizer: Tokenizer, form: AnswerForm, style: str, stops: Sequence[str] = ()) -> ChoiceRules:
    texts = TokenTexts(tokenizer.vocabulary, skip_special_tokens=True)
    machine = machine_factory(ReasoningTags(), style, form, stops, include_stop=False)
    return ChoiceRules(texts, machine=machine, request_id="r")


def make_cases(num_tokens: int) -> list[Case]:
    tokenizer = make_tokenizer()
    form = AnswerForm("any", has_tools=True)

    def case(name: str, said: str, form: AnswerForm, style: str = _STYLE, stops: Sequence[str] = ()) -> Case:
        ids = answer_tokens(tokenizer, said, num_tokens)
        return Case(name, rules(tokenizer, form, style, stops), [(TokenEvent("r", token_id),) for token_id in ids])

    return [
        case("plain", PROSE, ALL_TEXT),
        case("plain, 4 stop strings", PROSE, ALL_TEXT, stops=STOPS),
        case("answer", PROSE, form),
        case("answer, 4 stop strings", PROSE, form, stops=STOPS),
        case("reasoning", REASONING, form),
        case("reasoning, 4 stop strings", REASONING, form, stops=STOPS),
        *[case(f"calls, {style}", said, form, style) for style, said in CALLS.items()],
        case("calls, 4 stop strings", CALLS[_STYLE], form, stops=STOPS),
    ]


def measure(num_tokens: int, rounds: int) -> Figures:
    cases = make_cases(num_tokens)
    costs: dict[str, list[float]] = {case.name: [] for case in cases}
    for _ in range(rounds):
        for case in cases:
            costs[case.name].append(case.cost_us())
    return Figures(describe_machine(), num_tokens, {name: round(median(each), 2) for name, each in costs.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = measure(arguments.tokens, arguments.rounds)
    if arguments.json:
        print(json.dumps(asdict(figures)))
        return
    print(figures.machine)
    for name, cost_us in figures.costs.items():
        print(f"{name:28} {cost_us:7.2f} us per token")


if __name__ == "__main__":
    main()
