"""What it costs to follow a format: `python -m benchmarks.guides --help`.

Processor time of one thread: masks are written beside the step, and `offer` between two steps. `near` are tokens so
close to `max_tokens` that a closing is looked for behind each. Answers are random, which is the worst case: hardly two
tokens of one leave the parser in the same state.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.guides.measure import Figures, measure, timed_us
from benchmarks.serving.machine import describe_machine
from tailrace.guides.vocabulary import GuideVocabulary, TokenTable
from tailrace.guides.words import literal, regex_terminal, schema_rule
from tailrace.service.tokenizer import Tokenizer
from tailrace.weights.load import open_checkpoint

EXAMPLES = """examples:
  python -m benchmarks.guides
  python -m benchmarks.guides --tokenizer deepseek=/tmp/deepseek/tokenizer.json --json
"""

_ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "format": "uuid"},
        "customer": {"$ref": "#/$defs/person"},
        "items": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/item"}},
        "state": {"enum": ["open", "paid", "sent"]},
        "note": {"type": ["string", "null"]},
    },
    "required": ["id", "customer", "items", "state"],
    "additionalProperties": False,
    "$defs": {
        "person": {
            "type": "object",
            "properties": {"name": {"type": "string", "minLength": 1}, "age": {"type": "integer", "minimum": 0}},
            "required": ["name"],
            "additionalProperties": False,
        },
        "item": {
            "type": "object",
            "properties": {"title": {"type": "string"}, "count": {"type": "integer"}, "price": {"type": "number"}},
            "required": ["title", "count", "price"],
            "additionalProperties": False,
        },
    },
}
GRAMMARS: Mapping[str, str] = {
    "any object": f"start: {schema_rule({'type': 'object'})}",
    "an order": f"start: {schema_rule(_ORDER)}",
    "expression": f"start: text\ntext: {regex_terminal(r'([A-Z][a-z]+ ){4,60}[0-9]{4}')}",
    "choice of 100": "start: " + " | ".join(literal(f"choice number {number}") for number in range(100)),
}


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.guides",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--tokenizer", action="append", default=[], metavar="NAME=PATH", help="a tokenizer.json besides"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(words)


def tokenizers(named: Sequence[str]) -> dict[str, Tokenizer]:
    found = {"default model": Tokenizer.from_source(open_checkpoint(None).tokenizer)}
    for entry in named:
        name, _, path = entry.partition("=")
        found[name] = Tokenizer.from_source(Path(path))
    return found


def table_of(tokenizer: Tokenizer) -> TokenTable:
    tokens = [tokenizer.token_bytes(token_id) for token_id in range(tokenizer.vocab_size)]
    special_ids = frozenset(tokenizer.vocabulary.added.values())
    return TokenTable(tokens, special_ids, tuple(tokenizer.eos_ids) or (min(special_ids),))


def main(words: Sequence[str] | None = None) -> int:
    arguments = parse_arguments(words)
    figures: dict[str, dict[str, Figures]] = {}
    load_ms: dict[str, float] = {}
    for name, tokenizer in tokenizers(arguments.tokenizer).items():
        vocabulary = GuideVocabulary(partial(table_of, tokenizer), tokenizer.vocab_size)
        load_ms[name] = timed_us(vocabulary.load) / 1000
        figures[name] = {label: measure(vocabulary, grammar, arguments.rounds) for label, grammar in GRAMMARS.items()}
    if arguments.json:
        plain = {name: {label: asdict(each) for label, each in rows.items()} for name, rows in figures.items()}
        sys.stdout.write(json.dumps({"machine": describe_machine(), "load_ms": load_ms, "figures": plain}) + "\n")
    else:
        for name, rows in figures.items():
            Console(width=120).print(_table(f"{name}: loaded in {load_ms[name]:.0f} ms", rows))
    return 0


def _table(title: str, rows: Mapping[str, Figures]) -> Table:
    table = Table(title=title, caption="microseconds")
    for heading in ("grammar", "compile", "mask", "p99", "offer", "near", "p99", "closing", "its tokens"):
        table.add_column(heading, justify="left" if heading == "grammar" else "right")
    for label, row in rows.items():
        table.add_row(label, *(f"{value:,.0f}" for value in asdict(row).values()))
    return table


if __name__ == "__main__":
    sys.exit(main())
