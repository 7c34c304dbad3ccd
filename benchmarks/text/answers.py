"""Answers to measure with, and a vocabulary in which they are tokens of about four characters."""

import itertools
import json
from collections.abc import Mapping

from tailrace.service.tokenizer import Tokenizer
from tailrace.weights.checkpoint import GgufVocabulary

__all__ = ["CALLS", "PROSE", "REASONING", "STOPS", "answer_tokens", "make_tokenizer"]

STOPS = ("\n\nUser:", "Observation:", "</answer>", " the end")
_TOKEN_CHARS = 4

PROSE = "The river runs a mile below the mill, where it once turned the wheel; today, it is quiet. "
REASONING = "<think>\n" + "First, compare the two numbers: is 9.11 < 9.9? Both begin with 9, so look at the rest. "
_ARGUMENTS = '{"city": "Lyon", "units": "metric", "days": [1, 2, 3], "notes": "' + PROSE * 4 + '"}'


def _dsml(block: str) -> str:
    """The same arguments, in tags."""
    parameters = "".join(
        [
            f'<｜DSML｜parameter name="{name}" string="{"true" if isinstance(value, str) else "false"}">'
            f"{value if isinstance(value, str) else json.dumps(value)}</｜DSML｜parameter>\n"
            for name, value in json.loads(_ARGUMENTS).items()
        ]
    )
    invoke = f'<｜DSML｜invoke name="get_weather">\n{parameters}</｜DSML｜invoke>'
    return f"\n\n<｜DSML｜{block}>\n{invoke}\n</｜DSML｜{block}>"


# One call after the other, each as the style writes it.
CALLS: Mapping[str, str] = {
    "deepseek_v3": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
        f"{_ARGUMENTS}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    "deepseek_v31": (
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{_ARGUMENTS}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    "deepseek_v32": _dsml("function_calls"),
    "deepseek_v4": _dsml("tool_calls"),
    "hermes": f'<tool_call>\n{{"name": "get_weather", "arguments": {_ARGUMENTS}}}\n</tool_call>\n',
    "llama3": f'<|python_tag|>{{"name": "get_weather", "parameters": {_ARGUMENTS}}};',
}


def _cut(text: str) -> list[str]:
    return [text[place : place + _TOKEN_CHARS] for place in range(0, len(text), _TOKEN_CHARS)]


def _spelled(text: str) -> str:
    """Text in the alphabet of a byte-level vocabulary."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {byte: chr(byte) for byte in printable} | {byte: chr(0x100 + i) for i, byte in enumerate(others)}
    return "".join([alphabet[byte] for byte in text.encode()])


def make_tokenizer() -> Tokenizer:
    """A token for each piece of an answer."""
    pieces = sorted({piece for said in (PROSE, REASONING, *CALLS.values()) for piece in _cut(said)})
    return Tokenizer.from_source(GgufVocabulary("gpt2", "gpt-2", [*map(_spelled, pieces)], [1] * len(pieces)))


def answer_tokens(tokenizer: Tokenizer, said: str, num_tokens: int) -> list[int]:
    """The text over and over again, cut up the same way each time."""
    id_of_text = {tokenizer.token_text(token_id): token_id for token_id in range(tokenizer.vocab_size)}
    ids = [id_of_text[piece] for piece in _cut(said)]
    return list(itertools.islice(itertools.cycle(ids), num_tokens))
