"""A tokenizer's tokens in the words of guides: what is text in an answer, and what stands for itself."""

from collections.abc import Sequence
from functools import partial

from tailrace.guides.vocabulary import GuideVocabulary, TokenTable
from tailrace.service.tokenizer import Tokenizer

__all__ = ["guide_vocabulary", "token_table"]


def guide_vocabulary(tokenizer: Tokenizer, eos_ids: Sequence[int], num_tokens: int) -> GuideVocabulary:
    """Of a model with so many logits. Cheap: it reads the tokens when it is first used."""
    return GuideVocabulary(partial(token_table, tokenizer, eos_ids), num_tokens)


def token_table(tokenizer: Tokenizer, eos_ids: Sequence[int]) -> TokenTable:
    """Markup is no text: a grammar allows it by name alone."""
    tokens = [tokenizer.token_bytes(token_id) for token_id in range(tokenizer.vocab_size)]
    return TokenTable(tokens, frozenset(tokenizer.markup_ids.values()), tuple(eos_ids))
