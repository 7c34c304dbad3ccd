"""`tailrace complete`: continue a text, streaming to standard output."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter
from cyclopts.types import NonNegativeFloat, NormFloat, PositiveInt

from tailrace.bench.pieces import Piece
from tailrace.commands.answer import Sampling, open_answerer
from tailrace.commands.json_file import read_schema
from tailrace.commands.lazy import LazyExpertsOption
from tailrace.commands.lazy import lazy_experts as settle_lazy
from tailrace.commands.precision import PrecisionWords
from tailrace.errors import SetupError

__all__ = ["complete"]

complete = App(
    name="complete",
    help_epilogue="Examples:\n"
    '  tailrace complete "Once upon a time" --max-tokens 64\n'
    '  tailrace complete "def fib(n):" --suffix "    return a" --model deepseek-ai/deepseek-coder-1.3b-base\n'
    "  git diff | tailrace complete --url http://127.0.0.1:8000 --json",
)


@complete.default
def run(
    text: str | None = None,
    /,
    *,
    suffix: str | None = None,
    model: str | None = None,
    quantize: PrecisionWords | None = None,
    lazy_experts: LazyExpertsOption = None,
    url: str | None = None,
    api_key: Annotated[str | None, Parameter(env_var="OPENAI_API_KEY")] = None,
    max_tokens: PositiveInt = 128,
    temperature: NonNegativeFloat = 0.0,
    top_p: NormFloat | None = None,
    seed: int | None = None,
    schema: Path | None = None,
    json: bool = False,
) -> None:
    """Continue a text.

    Parameters
    ----------
    text
        The text to continue [standard input].
    suffix
        Fill the middle: continue the text up to this one. For code models that can.
    model
        A GGUF file, a Hugging Face directory, a hub id or tiny-deepseek; with --url, a name [the default model].
    quantize
        As for 'tailrace serve', of a model that is loaded here.
    lazy_experts
        As for 'tailrace serve': load an expert when it is first chosen, and keep as many as fit into what is given.
    url
        Ask this server instead of loading the model here.
    api_key
        Sent as a bearer token, with --url.
    max_tokens
        The most tokens to add.
    temperature
        0 takes the likeliest token each time.
    top_p
        Choose among the likeliest tokens with this much probability together.
    seed
        Repeats a random choice.
    schema
        A JSON schema, in a file, that the answer follows.
    json
        Write the whole answer, its counts and times as JSON instead of streaming it.
    """
    prompt = _read() if text is None else text
    with open_answerer(model, url, api_key, quantize, settle_lazy(lazy_experts)) as answerer:
        wanted = None if schema is None else read_schema(schema)
        sampling = Sampling(max_tokens, temperature, top_p, seed, suffix, schema=wanted)
        answer = answerer.answer(prompt, sampling, _ignore if json else _write)
    if json:
        figures = asdict(answer) | {"tokens_per_s": answer.tokens_per_s}
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(figures)).decode())
    sys.stdout.write("\n")


def _read() -> str:
    if sys.stdin.isatty():
        raise SetupError('nothing to continue: write tailrace complete "Once upon a time", or pipe a text in')
    return sys.stdin.read()


def _write(piece: Piece) -> None:
    sys.stdout.write(piece.text)
    sys.stdout.flush()


def _ignore(_piece: Piece) -> None:
    pass
