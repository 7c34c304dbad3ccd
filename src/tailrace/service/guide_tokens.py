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
    """Markup and hidden tokens are no text: a grammar allows them by name alone."""
    ids = range(tokenizer.vocab_size)
    special = frozenset(token_id for token_id in ids if tokenizer.is_control(token_id)) | tokenizer.markup_ids
    return TokenTable([tokenizer.token_bytes(token_id) for token_id in ids], special, tuple(eos_ids))
