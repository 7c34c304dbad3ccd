from collections.abc import AsyncIterator

import pytest

from tailrace.bench.exchange import Address
from tailrace.bench.prompts import Lexicon, draft, fit, learn_lexicon, make_prompts
from tailrace.bench.server import Prompt, Server
from tailrace.bench.words import WORDS
from tailrace.bench.workload import Workload
from tailrace.errors import SetupError
from tests.unit.bench.scripted import Asked, json_answer, scripted

HEAD, TAIL = [1, 2, 3], [4, 5]  # what a chat template puts around the words
LONG_WORDS = frozenset(WORDS[20:40])


async def word_tokens(text: str) -> list[int]:
    """A tokenizer to which most words are one token and a few are two, inside a template."""
    ids: list[int] = []
    for word in text.split():
        ids += [100 + WORDS.index(word)] * (2 if word in LONG_WORDS else 1)
    return HEAD + ids + TAIL


async def letter_tokens(text: str) -> list[int]:
    return list(text.encode())


def num_shared(first: list[int], second: list[int]) -> int:
    """How many tokens two prompts have in common from the start."""
    return next(index for index, (a, b) in enumerate(zip(first, second, strict=True)) if a != b)


async def test_words_of_one_token_and_the_cost_of_the_template_are_found_out() -> None:
    lexicon = await learn_lexicon(word_tokens)

    assert set(lexicon.words) == set(WORDS) - LONG_WORDS
    assert (lexicon.head, lexicon.tail) == (len(HEAD), len(TAIL))


async def test_drafts_have_the_wanted_length_and_share_exactly_the_wanted_prefix() -> None:
    lexicon = await learn_lexicon(word_tokens)
    workload = Workload(num_requests=8, prompt_tokens=40, output_tokens=1, shared_prefix_tokens=16, seed=5)

    prompts = [await word_tokens(" ".join(draft(workload, lexicon, index))) for index in range(8)]

    assert {len(prompt) for prompt in prompts} == {40}
    assert [num_shared(prompts[0], other) for other in prompts[1:]] == [16] * 7


def test_drafts_repeat_with_the_seed_and_differ_without() -> None:
    def words(seed: int, index: int) -> list[str]:
        return draft(Workload(1, 32, 1, 8, seed=seed), Lexicon(), index)

    assert words(1, 0) == words(1, 0)
    assert words(1, 0) != words(2, 0)
    assert len({tuple(words(1, index)) for index in range(2000)}) == 2000


def test_a_prompt_shorter_than_template_and_prefix_is_refused_with_the_least_that_would_do() -> None:
    with pytest.raises(SetupError, match="at least 14"):
        draft(Workload(1, 13, 1, 11), Lexicon(WORDS, head=3, tail=2), 0)


async def test_a_draft_that_came_out_wrong_is_mended() -> None:
    too_long = list(WORDS[15:45])
    too_short = list(WORDS[:3])

    for words in (too_long, too_short):
        text, is_exact = await fit(words, 24, word_tokens)
        assert is_exact
        assert len(await word_tokens(text)) == 24


async def test_a_length_that_words_cannot_hit_is_owned_up_to() -> None:
    text, is_exact = await fit(["animal", "animal", "animal"], 23, letter_tokens)

    assert not is_exact
    assert text


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
async def test_prompts_are_exact_where_the_server_counts_tokens(endpoint: str) -> None:
    async def script(asked: Asked) -> AsyncIterator[bytes]:
        text = asked.body["prompt"] if "prompt" in asked.body else asked.body["messages"][0]["content"]
        yield json_answer({"tokens": await word_tokens(text)})

    workload = Workload(3, 30, 1, 10, "chat" if endpoint == "chat" else "completions")
    async with scripted(script) as server:
        written = await make_prompts(Server(Address.parse(server.url), 10.0), "m", workload, 5)

    assert written.is_exact
    assert [len(await word_tokens(text_of(prompt))) for prompt in written.prompts] == [30] * 5


async def test_a_word_counts_as_a_token_where_the_server_cannot_say() -> None:
    async def script(_asked: Asked) -> AsyncIterator[bytes]:
        yield json_answer({"detail": "Not Found"}, 404)

    async with scripted(script) as server:
        written = await make_prompts(Server(Address.parse(server.url), 10.0), "m", Workload(3, 30, 1, 10), 3)

    assert not written.is_exact
    assert [len(text_of(prompt).split()) for prompt in written.prompts] == [30] * 3


def text_of(prompt: Prompt) -> str:
    return prompt if isinstance(prompt, str) else str(prompt[0]["content"])
