import pytest

from tailrace.bench.prompts import MIN_WORDS, draft, fit, learn_lexicon
from tailrace.bench.workload import Workload
from tailrace.service.tokenizer import Tokenizer
from tailrace.weights.synthetic_vocabulary import synthetic_vocabulary


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_source(synthetic_vocabulary(1024), add_bos=False, bos_id=1022)


async def test_prompts_have_exactly_the_tokens_that_are_wanted(tokenizer: Tokenizer) -> None:
    async def tokenize(text: str) -> list[int]:
        return tokenizer.encode(text, allow_control=True)

    lexicon = await learn_lexicon(tokenize)
    assert len(lexicon.words) >= MIN_WORDS
    workload = Workload(num_requests=4, prompt_tokens=100, output_tokens=8, shared_prefix_tokens=0, seed=1)
    for index in range(4):
        text, is_exact = await fit(draft(workload, lexicon, index), 100, tokenize)
        assert is_exact
        assert len(await tokenize(text)) == 100


def test_every_token_has_a_text(tokenizer: Tokenizer) -> None:
    assert all(tokenizer.decode([token]) for token in range(1022))
