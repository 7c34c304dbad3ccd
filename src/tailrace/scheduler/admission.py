"""What a request asks for, whether it can ever run here, and whether it can run in time."""

import math
from array import array
from collections.abc import Callable, Sequence

from tailrace.classes import ServiceClass, ServiceClasses
from tailrace.errors import ContextTooLong, InvalidRequest, RefusalReason
from tailrace.kvcache.cache import KvCacheConfig
from tailrace.scheduler.config import SchedulerConfig
from tailrace.scheduler.prediction import Prediction
from tailrace.types import Refusal, Request, SamplingParams

__all__ = ["expired", "longest_sequence", "refusal_of", "refuse_what_cannot_run", "shed", "stop_ids"]

MAX_TOKEN_ID = 2**32 - 1

_TO_BLAME = 2.0  # others are, from so many times on what a request would take alone


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


def refusal_of(
    prediction: Prediction | None,
    request: Request,
    service_class: ServiceClass,
    classes: ServiceClasses,
    retry_after_s: Callable[[Prediction, float], float],
) -> Refusal | None:
    """Why not to queue a request whose first token would come too late because of others; None: queue it.

    Late is later than its own target, or its class's. What an idle engine could not do in time either is not refused,
    nor is anything of a class that lets its requests wait. `retry_after_s` is asked with the prediction and the target.
    """
    target_s = service_class.ttft_s if request.ttft_s is None else request.ttft_s
    if prediction is None or not service_class.is_refused_late:
        return None
    if prediction.ttft_s <= max(target_s, _TO_BLAME * prediction.alone_s):
        return None
    after_s = retry_after_s(prediction, target_s)
    promise = "it asks for" if request.ttft_s is not None else f"class {service_class.name} promises"
    return Refusal(
        RefusalReason.TARGET_UNREACHABLE,
        f"the first token would come in about {prediction.ttft_s:.1f} s because of the requests ahead, later than "
        f"the {target_s:.3g} s that {promise}: {_advice(after_s, service_class, classes)}",
        after_s,
    )


def expired(
    request: Request, service_class: ServiceClass, classes: ServiceClasses, waited_s: float, retry_after_s: float
) -> Refusal:
    """Why a request that was queued is given up: it has not started for as long as it may wait."""
    by, advice = f"class {service_class.name} waits", _advice(retry_after_s, service_class, classes)
    if request.queue_ttl_s is not None:  # which no class makes longer
        by, advice = "it allows", f"{_come_back(retry_after_s)}, or allow more"
    return Refusal(
        RefusalReason.QUEUE_TIMEOUT,
        f"it has not started after {waited_s:.1f} s in the queue, as long as {by}: {advice}",
        retry_after_s,
    )


def shed(service_class: ServiceClass, retry_after_s: float) -> Refusal:
    """Why nobody of a class is let in, whoever it is."""
    return Refusal(
        RefusalReason.SHED,
        f"class {service_class.name} is kept out for a while, so that better classes keep their targets: "
        f"{_come_back(retry_after_s)}",
        retry_after_s,
    )


def _advice(after_s: float, service_class: ServiceClass, classes: ServiceClasses) -> str:
    advice = _come_back(after_s)
    if service_class.name == classes.least.name:
        return advice
    return f'{advice}, or ask for a class that waits longer (service_tier "flex")'


def _come_back(after_s: float) -> str:
    return f"come back in {math.ceil(after_s)} s"


def _refuse_malformed(request: Request) -> None:
    if not request.num_prompt_tokens:
        raise InvalidRequest("the prompt has no tokens: give at least one", param="prompt")
    if request.sampling.max_tokens < 1:
        raise InvalidRequest(f"max_tokens must be at least 1, not {request.sampling.max_tokens}", param="max_tokens")
    for ids in (request.prompt_ids, request.output_ids):
        if ids and not _are_in_range(ids):
            raise InvalidRequest(f"token ids must lie in [0, {MAX_TOKEN_ID}]: found {min(ids)} and {max(ids)}")


def _are_in_range(ids: Sequence[int]) -> bool:
    is_packed = isinstance(ids, array) and ids.typecode == "I"  # which holds no others
    return is_packed or 0 <= min(ids) <= max(ids) <= MAX_TOKEN_ID


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
