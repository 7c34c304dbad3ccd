"""What one request may ask of the text side, and how its length fits the context."""

from dataclasses import dataclass, replace

from tailrace.errors import ContextTooLong, InvalidRequest
from tailrace.service.api import ChatPrompt, Generation
from tailrace.service.prompts import check_token_ids
from tailrace.types import SamplingParams

__all__ = ["TextBounds", "check_generation", "fit_max_tokens"]


@dataclass(frozen=True, slots=True)
class TextBounds:
    max_choices: int = 128
    max_stops: int = 4
    max_stop_chars: int = 1024
    max_inline_chars: int = 4096  # about a millisecond of tokenising; longer prompts leave the event loop for a thread


def check_generation(generation: Generation, bounds: TextBounds, vocab_size: int) -> None:
    """Raises InvalidRequest for what is wrong whatever the prompt."""
    sampling = generation.sampling
    if not 1 <= generation.n <= bounds.max_choices:
        raise InvalidRequest(f"n is {generation.n}; it must be 1 to {bounds.max_choices}", param="n")
    if sampling.max_tokens and sampling.min_tokens > sampling.max_tokens:
        raise InvalidRequest(
            f"min_tokens is {sampling.min_tokens}, more than max_tokens, {sampling.max_tokens}", param="min_tokens"
        )
    _check_stops(generation.stop, bounds)
    _check_echo(generation)
    check_token_ids(sampling.stop_token_ids, vocab_size, "stop_token_ids")
    check_token_ids([token_id for token_id, _ in sampling.logit_bias], vocab_size, "logit_bias")


def _check_stops(stops: tuple[str, ...], bounds: TextBounds) -> None:
    if len(stops) > bounds.max_stops:
        raise InvalidRequest(f"{len(stops)} stop strings were given; at most {bounds.max_stops} can be", param="stop")
    for stop in stops:
        if not 1 <= len(stop) <= bounds.max_stop_chars:
            raise InvalidRequest(
                f"a stop string has {len(stop)} characters; it must have 1 to {bounds.max_stop_chars}", param="stop"
            )


def _check_echo(generation: Generation) -> None:
    if not generation.echo:
        return
    if isinstance(generation.prompt, ChatPrompt):
        raise InvalidRequest("echo works with completions only", param="echo")
    if generation.sampling.num_logprobs is not None:
        raise InvalidRequest("echo with log probabilities is not supported: leave one of them out", param="echo")


def fit_max_tokens(sampling: SamplingParams, num_prompt_tokens: int, context_tokens: int) -> SamplingParams:
    """The sampling with its max_tokens set to what the context leaves, where it is 0. Raises ContextTooLong."""
    room = context_tokens - num_prompt_tokens
    if room <= 0:
        raise ContextTooLong(
            f"the prompt has {num_prompt_tokens} tokens; the model's context of {context_tokens} tokens "
            "must hold it and at least one more: shorten the prompt",
            param="prompt",
        )
    if sampling.max_tokens > room:
        raise ContextTooLong(
            f"the prompt has {num_prompt_tokens} tokens and max_tokens is {sampling.max_tokens}, together "
            f"{num_prompt_tokens + sampling.max_tokens}; the model's context is {context_tokens} tokens: "
            f"ask for at most {room}, or shorten the prompt",
            param="max_tokens",
        )
    return replace(sampling, max_tokens=sampling.max_tokens or room)
