"""Measures the CPU time that the text side spends per streamed token: detokenising, stop strings, deltas.

Every token arrives alone, as from an engine that gives each step's token out at once. `choice` is the text machine of
one choice by itself; `stream` is the same behind the service, with the event loop that brings the tokens in. Several
rounds are run and the quickest counts: the rest is what other programs took.

    python -m benchmarks.text.streaming [--tokens N] [--rounds N] [--json]
"""

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import uvloop

from benchmarks.serving.machine import describe_machine
from tailrace.engine.stream import EventStream
from tailrace.errors import UnavailableError
from tailrace.service.answer_form import ALL_TEXT
from tailrace.service.api import Generation, ModelCard, TokenPrompt
from tailrace.service.choice import Choice
from tailrace.service.choice_rules import ChoiceRules
from tailrace.service.detokenize import TokenTexts
from tailrace.service.parsing.build import machine_factory
from tailrace.service.service import TextService
from tailrace.service.tokenizer import Tokenizer
from tailrace.types import (
    Explanation,
    FinishReason,
    Invalidated,
    Request,
    SamplingParams,
    Target,
    TokenEvent,
    TokenLogprob,
)
from tailrace.weights.checkpoint import GgufVocabulary

_NOTHING = Request("r", [1], SamplingParams(max_tokens=1))
_STOPS = ("\n\nUser:", "Observation:", "</answer>", " the end")
_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_BYTES = [chr(byte) for byte in _PRINTABLE] + [chr(0x100 + i) for i in range(256 - len(_PRINTABLE))]
_WORDS = [f"Ġ{head}{tail}" for head in ("th", "st", "m", "gr", "w") for tail in ("e", "is", "on", "ill", "ow", "ater")]


def make_tokenizer() -> Tokenizer:
    """One token a byte, and some words."""
    tokens = [*_BYTES, *_WORDS]
    return Tokenizer.from_source(GgufVocabulary("gpt2", "gpt-2", tokens, [1] * len(tokens)))


def words(num_tokens: int) -> list[int]:
    return [len(_BYTES) + place % len(_WORDS) for place in range(num_tokens)]


def split_characters(num_tokens: int) -> list[int]:
    """Emoji, a byte a token."""
    ids = [_BYTES.index(letter) for letter in "ðŁĺĢ"]
    return [ids[place % 4] for place in range(num_tokens)]


def events(token_ids: Sequence[int], num_logprobs: int | None = None) -> list[tuple[TokenEvent, ...]]:
    top = tuple(TokenLogprob(i, -1.0) for i in range(num_logprobs or 0))
    logprob = None if num_logprobs is None else -1.0
    batches = [(TokenEvent("r", i, logprob=logprob, top_logprobs=top),) for i in token_ids]
    return [*batches, (TokenEvent("r", None, finish_reason=FinishReason.LENGTH),)]


@dataclass(frozen=True)
class Figures:
    """Microseconds of CPU per token."""

    machine: str
    tokens: int
    choice: dict[str, float]
    stream: dict[str, float]


class Replay:
    """An engine that gives every request the same events."""

    is_ready = True
    received_s = 0.0

    def __init__(self, batches: Sequence[tuple[TokenEvent, ...]]) -> None:
        self._batches = batches

    def submit(self, request: Request) -> EventStream:
        stream = EventStream()
        asyncio.get_running_loop().call_soon(_play, stream, iter(self._batches))
        return stream

    def abort(self, request_id: str, reason: FinishReason = FinishReason.ABORT) -> None:
        """Nothing runs."""

    async def explain(self, prompt_ids: Sequence[int], cache_salt: str) -> Explanation:
        raise UnavailableError("there is no cache")

    async def invalidate(self, target: Target) -> Invalidated:
        raise UnavailableError("there is no cache")


def _play(stream: EventStream, batches: Iterator[tuple[TokenEvent, ...]]) -> None:
    """One batch for each round of the loop."""
    for batch in batches:
        for event in batch:
            stream.push(event)
        asyncio.get_running_loop().call_soon(_play, stream, batches)
        return


def feed_choice(rules: ChoiceRules, batches: Sequence[tuple[TokenEvent, ...]]) -> None:
    choice = Choice(0, rules)
    for batch in batches:
        choice.feed(batch)


async def read_stream(service: TextService, n: int, stop: tuple[str, ...]) -> None:
    sampling = SamplingParams(max_tokens=1 << 20)
    stream = await service.start(Generation("r", TokenPrompt([1]), sampling, n=n, stop=stop))
    async for _ in stream:
        pass


async def wake_only(batches: Sequence[tuple[TokenEvent, ...]]) -> None:
    async for _ in Replay(batches).submit(_NOTHING):
        pass


def run_loop(function: Callable[..., Coroutine[None, None, None]], *arguments: object) -> None:
    uvloop.run(function(*arguments))


def quickest_us(run: Callable[[], None], num_tokens: int, rounds: int) -> float:
    times_s = []
    for _ in range(rounds):
        started_s = time.process_time()
        run()
        times_s.append(time.process_time() - started_s)
    return round(1e6 * min(times_s) / num_tokens, 2)


def measure_choice(tokenizer: Tokenizer, num_tokens: int, rounds: int) -> dict[str, float]:
    texts = TokenTexts(tokenizer.vocabulary, skip_special_tokens=True)
    plain, stopping = (
        ChoiceRules(texts),
        ChoiceRules(texts, machine=machine_factory(None, "", ALL_TEXT, _STOPS, include_stop=False)),
    )
    cases = {
        "words": (plain, events(words(num_tokens))),
        "words, 4 stop strings": (stopping, events(words(num_tokens))),
        "split characters": (plain, events(split_characters(num_tokens))),
        "split characters, 4 stop strings": (stopping, events(split_characters(num_tokens))),
        "words, 5 log probabilities": (plain, events(words(num_tokens), num_logprobs=5)),
    }
    return {name: quickest_us(partial(feed_choice, *case), num_tokens, rounds) for name, case in cases.items()}


def measure_stream(tokenizer: Tokenizer, num_tokens: int, rounds: int) -> dict[str, float]:
    batches = events(words(num_tokens))
    service = TextService(Replay(batches), tokenizer, None, ModelCard("bench", (), 0, 1 << 30, tokenizer.vocab_size))
    costs = {"the event loop alone": quickest_us(partial(run_loop, wake_only, batches), num_tokens, rounds)}
    for n, stop in ((1, ()), (1, _STOPS), (4, ())):
        run = partial(run_loop, read_stream, service, n, stop)
        costs[f"n = {n}, {len(stop)} stop strings"] = quickest_us(run, n * num_tokens, rounds)
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    tokenizer = make_tokenizer()
    figures = Figures(
        describe_machine(),
        arguments.tokens,
        choice=measure_choice(tokenizer, arguments.tokens, arguments.rounds),
        stream=measure_stream(tokenizer, arguments.tokens, arguments.rounds),
    )
    if arguments.json:
        print(json.dumps(asdict(figures)))
        return
    print(figures.machine)
    for part, costs in (("choice", figures.choice), ("stream", figures.stream)):
        for name, cost_us in costs.items():
            print(f"{part}  {name:36} {cost_us:7.2f} us per token")


if __name__ == "__main__":
    main()
