"""The body of a response as work to do."""

from tailrace.errors import InvalidRequest
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.decode import BodyDecoder
from tailrace.frontends.http.job import Job
from tailrace.frontends.http.responses.fields import RESPONSE_FIELDS
from tailrace.frontends.http.responses.form import ResponseForm
from tailrace.frontends.http.responses.prompt import prompt_of
from tailrace.frontends.http.responses.schema import ResponseBody
from tailrace.frontends.http.responses.tools import format_of_text
from tailrace.frontends.http.sampling import sampling_params
from tailrace.frontends.model_name import check_model
from tailrace.frontends.output_format import check_obeyable
from tailrace.frontends.salt import tenant_salt
from tailrace.frontends.standing import Claim
from tailrace.service.api import Generation, ModelCard

__all__ = ["decode_response"]

_BODY = BodyDecoder(ResponseBody, RESPONSE_FIELDS)


def decode_response(body: bytes, request_id: str, model: ModelCard, config: HttpConfig) -> Job:
    """Raises InvalidRequest or ModelNotFound."""
    fields = _BODY.decode(body)
    check_model(fields.model, model)
    _check(fields)
    prompt, output_format = prompt_of(fields), format_of_text(fields)
    check_obeyable(
        output_format, prompt.tool_choice, min_tokens=fields.min_tokens or 0, ignore_eos=bool(fields.ignore_eos)
    )
    generation = Generation(
        request_id=request_id,
        prompt=prompt,
        sampling=sampling_params(fields, max_tokens=fields.max_output_tokens or 0, num_logprobs=_num_logprobs(fields)),
        stop=(fields.stop,) if isinstance(fields.stop, str) else tuple(fields.stop or ()),
        include_stop=bool(fields.include_stop_str_in_output),
        skip_special_tokens=fields.skip_special_tokens is not False,
        cache_salt=tenant_salt(fields.cache_salt, fields.user_id),
        seed=fields.seed,
        ends_with_context=True,
        output_format=output_format,
    )
    return Job(
        (generation,),
        ResponseForm(fields),
        Claim(service_tier=fields.service_tier, priority=fields.priority, tenant=fields.user_id or ""),
        is_streamed=bool(fields.stream),
        include_usage=True,
    )


def _num_logprobs(fields: ResponseBody) -> int | None:
    is_wanted = fields.top_logprobs or "message.output_text.logprobs" in (fields.include or ())
    return (fields.top_logprobs or 0) if is_wanted else None


def _check(fields: ResponseBody) -> None:
    """Raises InvalidRequest for what is asked for within a field and not supported."""
    if fields.stream_options is not None and fields.stream_options.include_obfuscation:
        raise _unsupported("stream_options.include_obfuscation", "padding of events is not supported")
    text = fields.text
    if text is not None and text.verbosity not in (None, "medium"):
        raise _unsupported("text.verbosity", "the length of answers is not steered; use max_output_tokens")


def _unsupported(field: str, reason: str) -> InvalidRequest:
    return InvalidRequest(f"{field!r} is refused: {reason}", param=field, code="unsupported_parameter")
