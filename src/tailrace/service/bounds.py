"""What one request may ask of the text side."""

from dataclasses import dataclass

from tailrace.errors import InvalidRequest
from tailrace.service.api import ChatPrompt, Generation, InfillPrompt
from tailrace.service.sampling import WholeNumber, check_sampling, check_value, shown
from tailrace.types import SamplingParams

__all__ = ["TextBounds", "check_answer_tokens", "check_generation", "check_guided"]

_SEED = WholeNumber(-(2**63), 2**64 - 1, may_be_none=True)


@dataclass(frozen=True, slots=True)
class TextBounds:
    max_choices: int = 128
    max_answer_tokens: int | None = None  # of all choices together
    max_stops: int = 4
    max_stop_chars: int = 1024
    max_messages: int = 4096
    max_inline_chars: int = 4096  # about a millisecond of tokenising; longer prompts leave the event loop for a thread


def check_generation(generation: Generation, bounds: TextBounds, vocab_size: int) -> None:
    """Raises InvalidRequest for what is wrong whatever the prompt."""
    check_value(generation.n, WholeNumber(1, bounds.max_choices), "n")
    check_value(generation.seed, _SEED, "seed")
    check_sampling(generation.sampling, vocab_size)
    _check_stops(generation.stop, bounds)
    _check_echo(generation)


def check_guided(sampling: SamplingParams) -> None:
    """Raises InvalidRequest for what keeps an answer from ending where its format does."""
    for field in ("ignore_eos", "min_tokens"):
        if getattr(sampling, field):
            raise InvalidRequest(
                f"{field!r} is refused with a format or a demanded call, which say where the answer ends: leave it out",
                param=field,
            )


def check_answer_tokens(generation: Generation, bounds: TextBounds, max_model_tokens: int) -> None:
    """Raises InvalidRequest when all choices together may have more tokens than a request may ask for here."""
    most = bounds.max_answer_tokens
    each = min(generation.sampling.max_tokens or max_model_tokens, max_model_tokens)
    if most is not None and generation.n * each > most:
        raise InvalidRequest(
            f"{generation.n} choices of {each:,} tokens are more than the {most:,} that one request may have here: "
            "send a smaller max_tokens",
            param="max_tokens",
        )


def _check_stops(stops: tuple[str, ...], bounds: TextBounds) -> None:
    if len(stops) > bounds.max_stops:
        raise InvalidRequest(f"{len(stops)} stop strings were given; at most {bounds.max_stops} can be", param="stop")
    for stop in stops:
        if not isinstance(stop, str):
            raise InvalidRequest(f"a stop string is {shown(stop)}; it must be text", param="stop")
        if not 1 <= len(stop) <= bounds.max_stop_chars:
            raise InvalidRequest(
                f"a stop string has {len(stop)} characters; it must have 1 to {bounds.max_stop_chars}", param="stop"
            )


def _check_echo(generation: Generation) -> None:
    if not generation.echo:
        return
    if isinstance(generation.prompt, ChatPrompt):
        raise InvalidRequest("echo works with completions only", param="echo")
    if isinstance(generation.prompt, InfillPrompt):
        raise InvalidRequest("echo with suffix is refused: an answer between two texts follows neither", param="echo")
    if generation.sampling.num_logprobs is not None:
        raise InvalidRequest("echo with log probabilities is not supported: leave one of them out", param="echo")
