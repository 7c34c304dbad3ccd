"""The bodies of the two kinds of completion as work to do."""

from collections.abc import Iterator
from dataclasses import replace

from tailrace.errors import InvalidRequest
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.decode import BodyDecoder
from tailrace.frontends.http.job import Job
from tailrace.frontends.http.openai.fields import OPENAI_FIELDS
from tailrace.frontends.http.openai.form import CHAT, COMPLETION, CompletionsForm
from tailrace.frontends.http.openai.prompts import completion_prompts, messages_prompt
from tailrace.frontends.http.openai.schema import ChatBody, CompletionBody, CompletionsBody
from tailrace.frontends.http.sampling import sampling_params
from tailrace.frontends.model_name import check_model
from tailrace.frontends.output_format import check_obeyable, output_format_of
from tailrace.frontends.salt import tenant_salt
from tailrace.frontends.standing import Claim
from tailrace.service.api import ANY_CALLS, ChatPrompt, Generation, ModelCard, Prompt
from tailrace.types import SamplingParams

__all__ = ["decode_chat", "decode_completion"]

_CHAT_BODY = BodyDecoder(ChatBody, OPENAI_FIELDS)
_COMPLETION_BODY = BodyDecoder(CompletionBody, OPENAI_FIELDS)


def decode_chat(body: bytes, request_id: str, model: ModelCard, config: HttpConfig) -> Job:
    """Raises InvalidRequest or ModelNotFound."""
    fields = _CHAT_BODY.decode(body)
    check_model(fields.model, model)
    prompt = messages_prompt(fields.messages, fields)
    sampling = sampling_params(fields, max_tokens=_max_chat_tokens(fields), num_logprobs=_chat_logprobs(fields))
    form = CompletionsForm(CHAT, fields.n or 1, shows_reasoning=fields.include_reasoning is not False)
    return _job(fields, [prompt], sampling, request_id, form)


def decode_completion(body: bytes, request_id: str, model: ModelCard, config: HttpConfig) -> Job:
    """Raises InvalidRequest or ModelNotFound."""
    fields = _COMPLETION_BODY.decode(body)
    check_model(fields.model, model)
    _check_completion(fields)
    prompts = completion_prompts(
        fields.prompt, fields.suffix or "", add_special_tokens=fields.add_special_tokens is not False
    )
    max_tokens = fields.max_tokens or config.default_completion_tokens
    sampling = sampling_params(fields, max_tokens=max_tokens, num_logprobs=_completion_logprobs(fields))
    n = fields.n or 1
    _check_merged(n, len(prompts), config.max_merged_choices)
    form = CompletionsForm(COMPLETION, n * len(prompts))
    return _job(fields, prompts, sampling, request_id, form, echo=bool(fields.echo))


def _max_chat_tokens(fields: ChatBody) -> int:
    given = {fields.max_tokens, fields.max_completion_tokens} - {None}
    if len(given) > 1:
        raise InvalidRequest("max_tokens and max_completion_tokens differ; send one", param="max_tokens")
    return fields.max_completion_tokens or fields.max_tokens or 0


def _chat_logprobs(fields: ChatBody) -> int | None:
    if fields.top_logprobs and not fields.logprobs:
        raise InvalidRequest("top_logprobs needs logprobs to be true", param="top_logprobs")
    return (fields.top_logprobs or 0) if fields.logprobs else None


def _completion_logprobs(fields: CompletionBody) -> int | None:
    if fields.logprobs is True:
        raise InvalidRequest("logprobs is a number here: how many of the best tokens to show", param="logprobs")
    return None if fields.logprobs is False else fields.logprobs


def _check_completion(fields: CompletionBody) -> None:
    if fields.best_of is not None and fields.best_of != (fields.n or 1):
        raise InvalidRequest(
            "best_of other than n is refused: candidates are not ranked; use n",
            param="best_of",
            code="unsupported_parameter",
        )


def _job(
    fields: CompletionsBody,
    prompts: list[Prompt],
    sampling: SamplingParams,
    request_id: str,
    form: CompletionsForm,
    *,
    echo: bool = False,
) -> Job:
    include_usage, continuous_usage = _usage_wishes(fields)
    return Job(
        tuple(_generations(fields, prompts, sampling, request_id, echo=echo)),
        replace(form, has_usage=include_usage),
        Claim(service_tier=fields.service_tier, priority=fields.priority, tenant=fields.user_id or ""),
        fields.n or 1,
        is_streamed=bool(fields.stream),
        include_usage=include_usage,
        continuous_usage=continuous_usage,
    )


def _generations(
    fields: CompletionsBody, prompts: list[Prompt], sampling: SamplingParams, request_id: str, *, echo: bool
) -> Iterator[Generation]:
    """One a prompt, each under a name of its own."""
    output_format = output_format_of(fields.response_format, fields.structured_outputs)
    choice = prompts[0].tool_choice if isinstance(prompts[0], ChatPrompt) else ANY_CALLS
    check_obeyable(output_format, choice, min_tokens=sampling.min_tokens, ignore_eos=sampling.ignore_eos, echo=echo)
    first = Generation(
        request_id=request_id,
        prompt=prompts[0],
        sampling=sampling,
        n=fields.n or 1,
        stop=_stop(fields.stop),
        include_stop=bool(fields.include_stop_str_in_output),
        skip_special_tokens=fields.skip_special_tokens is not False,
        echo=echo,
        cache_salt=tenant_salt(fields.cache_salt, fields.user_id),
        seed=fields.seed,
        output_format=output_format,
    )
    yield first
    for i in range(1, len(prompts)):
        yield replace(first, request_id=f"{request_id}.{i}", prompt=prompts[i])


def _check_merged(n: int, num_prompts: int, limit: int) -> None:
    if num_prompts > 1 and n * num_prompts > limit:
        raise InvalidRequest(
            f"n = {n} for each of {num_prompts} prompts are {n * num_prompts} choices; at most {limit} can be",
            param="prompt",
        )


def _stop(stop: str | list[str] | None) -> tuple[str, ...]:
    return (stop,) if isinstance(stop, str) else tuple(stop or ())


def _usage_wishes(fields: CompletionsBody) -> tuple[bool, bool]:
    options = fields.stream_options
    if options is None:
        return False, False
    if not fields.stream:
        raise InvalidRequest("stream_options is for streams; set stream to true", param="stream_options")
    if options.include_obfuscation:
        raise InvalidRequest(
            "padding of chunks is not supported",
            param="stream_options.include_obfuscation",
            code="unsupported_parameter",
        )
    return bool(options.include_usage), bool(options.include_usage and options.continuous_usage_stats)
