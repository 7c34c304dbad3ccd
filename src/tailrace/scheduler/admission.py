"""What a request asks for, and whether it can ever run here. Load does not matter; see `Scheduler.add` for that."""

from tailrace.errors import ContextTooLong, InvalidRequest
from tailrace.kvcache.cache import KvCacheConfig
from tailrace.scheduler.config import SchedulerConfig
from tailrace.types import Request, SamplingParams

__all__ = ["longest_sequence", "refuse_what_cannot_run", "stop_ids"]

MAX_TOKEN_ID = 2**32 - 1


def longest_sequence(request: Request, config: SchedulerConfig) -> int:
    """Tokens of prompt and output at which the request ends at the latest."""
    return min(request.num_prompt_tokens + request.sampling.max_tokens, config.max_model_tokens)


def stop_ids(sampling: SamplingParams, config: SchedulerConfig) -> frozenset[int]:
    """Tokens that end the request."""
    eos_ids = () if sampling.ignore_eos else config.eos_ids
    return frozenset((*sampling.stop_token_ids, *eos_ids))


def refuse_what_cannot_run(request: Request, config: SchedulerConfig, kv: KvCacheConfig) -> None:
    """Raises InvalidRequest for a malformed request, ContextTooLong for one that no idle engine could finish."""
    _refuse_malformed(request)
    _refuse_too_long(request, config, kv)
    if len(request.output_ids) >= longest_sequence(request, config) - request.num_prompt_tokens:
        raise InvalidRequest(
            f"{len(request.output_ids)} output tokens are delivered already and no more may follow: do not resume it",
            param="output_ids",
        )


def _refuse_malformed(request: Request) -> None:
    if not request.num_prompt_tokens:
        raise InvalidRequest("the prompt has no tokens: give at least one", param="prompt")
    if request.sampling.max_tokens < 1:
        raise InvalidRequest(f"max_tokens must be at least 1, not {request.sampling.max_tokens}", param="max_tokens")
    for ids in (request.prompt_ids, request.output_ids):
        if ids and not 0 <= min(ids) <= max(ids) <= MAX_TOKEN_ID:
            raise InvalidRequest(f"token ids must lie in [0, {MAX_TOKEN_ID}]: found {min(ids)} and {max(ids)}")


def _refuse_too_long(request: Request, config: SchedulerConfig, kv: KvCacheConfig) -> None:
    if request.num_prompt_tokens >= config.max_model_tokens:
        raise ContextTooLong(
            f"the prompt has {request.num_prompt_tokens} tokens and the model takes {config.max_model_tokens} "
            "with the answer: shorten the prompt",
            param="prompt",
        )
    # The last token is never computed, so it needs no room.
    num_positions = longest_sequence(request, config) - 1
    if not kv.can_hold(num_positions):
        raise ContextTooLong(
            f"prompt and max_tokens need room for {num_positions} tokens and the KV cache holds {kv.num_tokens}: "
            "shorten the prompt, lower max_tokens, or give the server more KV memory",
            param="max_tokens",
        )
