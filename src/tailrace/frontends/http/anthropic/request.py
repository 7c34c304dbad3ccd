"""The body of a message as work to do."""

from tailrace.errors import InvalidRequest
from tailrace.frontends.http.anthropic.fields import ANTHROPIC_FIELDS
from tailrace.frontends.http.anthropic.form import MessageForm
from tailrace.frontends.http.anthropic.prompt import prompt_of
from tailrace.frontends.http.anthropic.schema import MessagesBody
from tailrace.frontends.http.anthropic.thinking import format_of_output, shows_thinking
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.decode import BodyDecoder
from tailrace.frontends.http.job import Job
from tailrace.frontends.http.sampling import sampling_params
from tailrace.frontends.model_name import check_model
from tailrace.frontends.output_format import check_obeyable
from tailrace.frontends.salt import tenant_salt
from tailrace.frontends.standing import Claim
from tailrace.service.api import Generation, ModelCard

__all__ = ["decode_message"]

_BODY = BodyDecoder(MessagesBody, ANTHROPIC_FIELDS)
_TIERS = {"standard_only": "default"}  # what of the API's words has another name here


def decode_message(body: bytes, request_id: str, model: ModelCard, config: HttpConfig) -> Job:
    """Raises InvalidRequest or ModelNotFound."""
    fields = _BODY.decode(body)
    check_model(fields.model, model)
    user_id = _user_id(fields)
    prompt, output_format = prompt_of(fields), format_of_output(fields)
    check_obeyable(
        output_format, prompt.tool_choice, min_tokens=fields.min_tokens or 0, ignore_eos=bool(fields.ignore_eos)
    )
    generation = Generation(
        request_id=request_id,
        prompt=prompt,
        sampling=sampling_params(fields, max_tokens=fields.max_tokens, num_logprobs=None),
        stop=tuple(fields.stop_sequences or ()),
        include_stop=bool(fields.include_stop_str_in_output),
        skip_special_tokens=fields.skip_special_tokens is not False,
        cache_salt=tenant_salt(fields.cache_salt, user_id),
        seed=fields.seed,
        ends_with_context=True,
        output_format=output_format,
    )
    return Job(
        (generation,),
        MessageForm(fields.max_tokens, shows_thinking(fields)),
        Claim(service_tier=_service_tier(fields), priority=fields.priority, tenant=user_id or ""),
        is_streamed=bool(fields.stream),
        include_usage=True,
    )


def _user_id(fields: MessagesBody) -> str | None:
    """The end user, who is told apart as in the other endpoints."""
    user_id = None if fields.metadata is None else fields.metadata.user_id
    if None not in (user_id, fields.user_id) and user_id != fields.user_id:
        raise InvalidRequest("user_id and metadata.user_id differ; send one", param="user_id")
    return user_id or fields.user_id


def _service_tier(fields: MessagesBody) -> str | None:
    if fields.speed == "fast":
        return "fast"
    tier = fields.service_tier
    return None if tier is None else _TIERS.get(tier, tier)
