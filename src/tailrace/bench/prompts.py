"""Prompts of an exact number of tokens, made of words that cost the server's tokenizer one token each.

Where the server has no `/tokenize`, a word counts as a token.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from tailrace.bench.exchange import WireError
from tailrace.bench.server import Prompt, Server
from tailrace.bench.words import WORDS
from tailrace.bench.workload import Workload
from tailrace.errors import SetupError

__all__ = ["Lexicon", "PromptSet", "Tokenize", "draft", "fit", "learn_lexicon", "make_prompts"]

MAX_REPAIRS = 8
MAX_CALLS_IN_FLIGHT = 8
MIN_WORDS = 16

Tokenize = Callable[[str], Awaitable[list[int]]]


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Words of one token each, and what every prompt costs besides: `head` tokens before the words, `tail` behind."""

    words: tuple[str, ...] = WORDS
    head: int = 0
    tail: int = 0


@dataclass(frozen=True, slots=True)
class PromptSet:
    """The prompts of a run. `is_exact`: every length was checked against the server's tokenizer."""

    prompts: Sequence[Prompt]
    is_exact: bool


async def make_prompts(server: Server, model: str, workload: Workload, count: int) -> PromptSet:
    """Write `count` prompts that all differ. Raises SetupError where the lengths are impossible, WireError."""

    async def tokenize(text: str) -> list[int]:
        return await server.tokenize(model, _as_prompt(text, workload))

    try:
        lexicon = await learn_lexicon(tokenize)
    except WireError:
        texts = [" ".join(draft(workload, Lexicon(), index)) for index in range(count)]
        return PromptSet([_as_prompt(text, workload) for text in texts], is_exact=False)
    gate = asyncio.Semaphore(MAX_CALLS_IN_FLIGHT)

    async def write(index: int) -> tuple[str, bool]:
        async with gate:
            return await fit(draft(workload, lexicon, index), workload.prompt_tokens, tokenize)

    written = await asyncio.gather(*(write(index) for index in range(count)))
    return PromptSet([_as_prompt(text, workload) for text, _ in written], all(is_exact for _, is_exact in written))


async def learn_lexicon(tokenize: Tokenize) -> Lexicon:
    """Find out which words are one token, and what a prompt costs besides its words."""
    first, second = await tokenize(WORDS[0]), await tokenize(WORDS[1])
    head = 0
    while head < min(len(first), len(second)) - 1 and first[head] == second[head]:
        head += 1

    async def single(words: tuple[str, ...]) -> tuple[str, ...]:
        """Those of `words` that are one token behind another word: halve a group until its count comes out even."""
        if len(await tokenize(" ".join((WORDS[0], *words)))) == len(first) + len(words):
            return words
        if len(words) == 1:
            return ()
        middle = len(words) // 2
        return await single(words[:middle]) + await single(words[middle:])

    words = await single(WORDS)
    return Lexicon(words if len(words) >= MIN_WORDS else WORDS, head, len(first) - 1 - head)


def draft(workload: Workload, lexicon: Lexicon, index: int) -> list[str]:
    """The words of prompt `index`: the shared prefix, the index spelled in words, then random ones."""
    num_shared = max(0, workload.shared_prefix_tokens - lexicon.head)
    num_words = workload.prompt_tokens - lexicon.head - lexicon.tail
    if num_words <= num_shared:
        shortest = lexicon.head + lexicon.tail + num_shared + 1
        raise SetupError(
            f"a prompt of {workload.prompt_tokens} tokens is too short: the prompt template and the shared prefix "
            f"need at least {shortest}"
        )
    base = len(lexicon.words)
    prefix = random.Random(f"prefix-{workload.seed}").choices(lexicon.words, k=num_shared)
    number = [lexicon.words[index % base], lexicon.words[index // base % base]]
    rest = random.Random(f"prompt-{workload.seed}-{index}").choices(lexicon.words, k=num_words)
    return (prefix + number + rest)[:num_words]


async def fit(words: list[str], wanted_tokens: int, tokenize: Tokenize) -> tuple[str, bool]:
    """Add or drop words at the end until the text has `wanted_tokens`; also whether that came out exactly."""
    for _ in range(MAX_REPAIRS):
        num_tokens = len(await tokenize(" ".join(words)))
        if num_tokens == wanted_tokens:
            return " ".join(words), True
        num_words = max(1, abs(num_tokens - wanted_tokens) * len(words) // num_tokens)
        words = (words[:-num_words] or words[:1]) if num_tokens > wanted_tokens else words + words[-num_words:]
    return " ".join(words), False


def _as_prompt(text: str, workload: Workload) -> Prompt:
    return text if workload.endpoint == "completions" else [{"role": "user", "content": text}]
