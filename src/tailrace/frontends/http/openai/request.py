"""A body as work to do: the generations to start, and how the client wants to read their answer."""

from dataclasses import dataclass, replace

from tailrace.errors import InvalidRequest, ModelNotFound
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.openai.decode import BodyDecoder
from tailrace.frontends.http.openai.prompts import chat_prompt, completion_prompts
from tailrace.frontends.http.openai.sampling import sampling_params
from tailrace.frontends.http.openai.schema import ChatBody, CompletionBody, SamplingBody
from tailrace.service.api import Generation, ModelCard, Prompt
from tailrace.types import SamplingParams

__all__ = ["Job", "check_model", "decode_chat", "decode_completion"]

_CHAT = BodyDecoder(ChatBody)
_COMPLETION = BodyDecoder(CompletionBody)


@dataclass(frozen=True, slots=True)
class Job:
    """One HTTP request's work. Choice `i` of generation `g` is choice `g * n + i` of the answer."""

    generations: tuple[Generation, ...]
    n: int
    is_streamed: bool = False
    include_usage: bool = False  # in a last chunk of its own
    continuous_usage: bool = False  # in every chunk

    @property
    def num_choices(self) -> int:
        return self.n * len(self.generations)


def decode_chat(body: bytes, request_id: str, model: ModelCard, config: HttpConfig) -> Job:
    """Raises InvalidRequest or ModelNotFound."""
    fields = _CHAT.decode(body)
    check_model(fields.model, model)
    prompt = chat_prompt(
        fields.messages,
        add_generation_prompt=fields.add_generation_prompt,
        continue_final_message=fields.continue_final_message,
        template_args=fields.chat_template_kwargs,
    )
    sampling = sampling_params(fields, max_tokens=_max_chat_tokens(fields), num_logprobs=_chat_logprobs(fields))
    return _job(fields, [prompt], sampling, request_id, config)


def decode_completion(body: bytes, request_id: str, model: ModelCard, config: HttpConfig) -> Job:
    """Raises InvalidRequest or ModelNotFound."""
    fields = _COMPLETION.decode(body)
    check_model(fields.model, model)
    _check_completion(fields)
    prompts = completion_prompts(
        fields.prompt, fields.suffix or "", add_special_tokens=fields.add_special_tokens is not False
    )
    max_tokens = fields.max_tokens or config.default_completion_tokens
    sampling = sampling_params(fields, max_tokens=max_tokens, num_logprobs=_completion_logprobs(fields))
    return _job(fields, prompts, sampling, request_id, config, echo=bool(fields.echo))


def check_model(name: str | None, model: ModelCard) -> None:
    """Raises ModelNotFound unless the name means the served model."""
    if name is not None and name not in ("default", model.name, *model.aliases):
        raise ModelNotFound(f"the model {name[:128]!r} is not served here; {model.name!r} is", param="model")


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
    fields: SamplingBody,
    prompts: list[Prompt],
    sampling: SamplingParams,
    request_id: str,
    config: HttpConfig,
    *,
    echo: bool = False,
) -> Job:
    n = fields.n or 1
    _check_merged(n, len(prompts), config.max_merged_choices)
    first = Generation(
        request_id=request_id,
        prompt=prompts[0],
        sampling=sampling,
        n=n,
        stop=_stop(fields.stop),
        include_stop=bool(fields.include_stop_str_in_output),
        skip_special_tokens=fields.skip_special_tokens is not False,
        echo=echo,
        cache_salt=_cache_salt(fields),
        seed=fields.seed,
    )
    others = (replace(first, request_id=f"{request_id}.{i}", prompt=prompts[i]) for i in range(1, len(prompts)))
    include_usage, continuous_usage = _usage_wishes(fields)
    return Job((first, *others), n, bool(fields.stream), include_usage, continuous_usage)


def _check_merged(n: int, num_prompts: int, limit: int) -> None:
    if num_prompts > 1 and n * num_prompts > limit:
        raise InvalidRequest(
            f"n = {n} for each of {num_prompts} prompts are {n * num_prompts} choices; at most {limit} can be",
            param="prompt",
        )


def _stop(stop: str | list[str] | None) -> tuple[str, ...]:
    return (stop,) if isinstance(stop, str) else tuple(stop or ())


def _cache_salt(fields: SamplingBody) -> str:
    """End users of one client share no cached block either."""
    if fields.user_id is None:
        return fields.cache_salt or ""
    return f"{fields.cache_salt or ''}|user_id={fields.user_id}"


def _usage_wishes(fields: SamplingBody) -> tuple[bool, bool]:
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
