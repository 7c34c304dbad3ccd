"""Whether a request fits the model's context: the one place that says so."""

from dataclasses import replace

from tailrace.errors import ContextTooLong
from tailrace.types import SamplingParams

__all__ = ["check_prompt_length", "fit_max_tokens"]


def check_prompt_length(num_tokens: int, context_tokens: int, param: str, *, is_least: bool = False) -> None:
    """Raises ContextTooLong unless an answer has room. `is_least`: the prompt has this many tokens or more."""
    if num_tokens < context_tokens:
        return
    raise ContextTooLong(
        f"the prompt has {'at least ' * is_least}{num_tokens} tokens; the model's context of {context_tokens} tokens "
        "must hold it and at least one more: shorten the prompt",
        param=param,
    )


def fit_max_tokens(
    sampling: SamplingParams, num_prompt_tokens: int, context_tokens: int, prompt_param: str
) -> SamplingParams:
    """The sampling with its max_tokens set to what the context leaves, where it is 0. Raises ContextTooLong."""
    check_prompt_length(num_prompt_tokens, context_tokens, prompt_param)
    room = context_tokens - num_prompt_tokens
    if sampling.max_tokens > room:
        raise ContextTooLong(
            f"the prompt has {num_prompt_tokens} tokens and max_tokens is {sampling.max_tokens}, together "
            f"{num_prompt_tokens + sampling.max_tokens}; the model's context is {context_tokens} tokens: "
            f"ask for at most {room}, or shorten the prompt",
            param="max_tokens",
        )
    return replace(sampling, max_tokens=sampling.max_tokens or room)
