"""Whether a request fits the context it gets here: the one place that says so."""

from dataclasses import dataclass, replace

from tailrace.errors import ContextTooLong
from tailrace.types import SamplingParams

__all__ = ["Context", "check_prompt_length", "fit_max_tokens"]


@dataclass(frozen=True, slots=True)
class Context:
    """How many tokens a prompt and its answer may have together, and what sets that bound."""

    num_tokens: int
    is_bound_by_kv: bool = False  # the KV memory holds no more, whatever the model could take

    def __str__(self) -> str:
        owner = "the server's KV memory (see --kv-memory)" if self.is_bound_by_kv else "the model's context"
        return f"{owner} of {self.num_tokens} tokens"


def check_prompt_length(num_tokens: int, context: Context, param: str, *, is_least: bool = False) -> None:
    """Raises ContextTooLong unless an answer has room. `is_least`: the prompt has this many tokens or more."""
    if num_tokens < context.num_tokens:
        return
    raise ContextTooLong(
        f"the prompt has {'at least ' * is_least}{num_tokens} tokens; {context} must hold it and at least one more: "
        "shorten the prompt",
        param=param,
    )


def fit_max_tokens(
    sampling: SamplingParams,
    num_prompt_tokens: int,
    context: Context,
    prompt_param: str,
    *,
    ends_with_context: bool = False,
) -> SamplingParams:
    """The sampling with its max_tokens set to what the context leaves, where it is 0.

    Raises ContextTooLong when it is more than that, unless the answer may end with the context.
    """
    check_prompt_length(num_prompt_tokens, context, prompt_param)
    room = context.num_tokens - num_prompt_tokens
    if sampling.max_tokens > room and not ends_with_context:
        raise ContextTooLong(
            f"the prompt has {num_prompt_tokens} tokens and max_tokens is {sampling.max_tokens}, together "
            f"{num_prompt_tokens + sampling.max_tokens}; {context} must hold them: ask for at most {room}, or shorten "
            "the prompt",
            param="max_tokens",
        )
    return replace(sampling, max_tokens=min(sampling.max_tokens or room, room))
