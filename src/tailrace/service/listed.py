"""Prompts that are expected, as tokens of the served model: what an operator lists, and what a server keeps."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

from tailrace.errors import InvalidRequest, SetupError
from tailrace.kvcache.warm import HotPrefix, PrefixTally
from tailrace.service.api import ListedPrompt, ModelCard, Prompt, TokenPrompt

__all__ = ["encode_listed", "kept_prompts", "recall"]

logger = logging.getLogger(__name__)


def encode_listed(
    prompts: Iterable[ListedPrompt], tokenize: Callable[[Prompt], Sequence[int]], model: ModelCard, block_tokens: int
) -> list[tuple[str, Sequence[int]]]:
    """Salt and tokens of each. Those are left out, and it is said, of which the cache would have nothing to keep.

    Raises SetupError for the first that this model cannot take, naming its place.
    """
    encoded = [(prompt, _encode(prompt, tokenize, model)) for prompt in prompts]
    short = [prompt.place for prompt, token_ids in encoded if len(token_ids) <= block_tokens]
    if short:
        logger.warning(
            "%d of %d listed prompts are not computed ahead: they have no more tokens than a block, %d; the first: %s",
            len(short),
            len(encoded),
            block_tokens,
            short[0],
        )
    return [(prompt.cache_salt, token_ids) for prompt, token_ids in encoded if len(token_ids) > block_tokens]


def kept_prompts(hottest: Iterable[HotPrefix], model: ModelCard) -> Iterator[ListedPrompt]:
    """What to keep of hot prefixes until the next start."""
    for prefix in hottest:
        yield ListedPrompt(TokenPrompt(prefix.token_ids), prefix.salt, max(prefix.num_uses, 1e-9), model.name)


def recall(
    prompts: Iterable[ListedPrompt],
    tokenize: Callable[[Prompt], Sequence[int]],
    model: ModelCard,
    tally: PrefixTally,
    now_s: float,
) -> None:
    """Count what was kept as if it had been used lately. Prompts of other models are left out. Raises SetupError."""
    ours = [prompt for prompt in prompts if prompt.model == model.name]
    for prompt in ours:
        token_ids = _encode(prompt, tokenize, model)
        for _ in range(2):  # what was used once is not known in full
            tally.count(prompt.cache_salt, token_ids, now_s, prompt.num_uses / 2)


def _encode(prompt: ListedPrompt, tokenize: Callable[[Prompt], Sequence[int]], model: ModelCard) -> Sequence[int]:
    try:
        token_ids = tokenize(prompt.prompt)
    except InvalidRequest as error:
        raise SetupError(f"{prompt.place}: {error}") from error
    if not 0 < len(token_ids) < model.max_model_tokens:
        raise SetupError(
            f"{prompt.place}: the prompt has {len(token_ids)} tokens; it can have 1 to {model.max_model_tokens - 1}"
        )
    return token_ids
