"""Messages of our own protocol as what the service takes. Complaints name the field as the protocol does."""

import re

from tailrace.errors import InvalidRequest
from tailrace.frontends.grpc.chats import read_chat
from tailrace.frontends.grpc.formats import format_of
from tailrace.frontends.grpc.sampling import sampling_of
from tailrace.frontends.grpc.v1 import inference_pb2 as pb
from tailrace.frontends.output_format import check_obeyable
from tailrace.frontends.standing import Claim
from tailrace.service.api import (
    ANY_CALLS,
    ChatPrompt,
    Generation,
    InfillPrompt,
    Prompt,
    Standing,
    TextPrompt,
    TokenPrompt,
)
from tailrace.types import SamplingParams

__all__ = ["claim_of", "field_place", "generation_of", "prompt_of"]

_MAX_SALT_CHARS = 512
_NAMES = {"service_tier": "service_class", "num_logprobs": "logprobs", "reasoning_effort": "effort"}
_ARGS, _TEMPLATE_ARGS = "chat_template_kwargs", "template_args"
_CHAT = frozenset(pb.Chat.DESCRIPTOR.fields_by_name)
_SAMPLING = frozenset(pb.Sampling.DESCRIPTOR.fields_by_name)


def claim_of(request: pb.GenerateRequest) -> Claim:
    """What a request says of its class besides its metadata."""
    return Claim(service_tier=request.service_class or None, priority=request.priority or None, tenant=request.tenant)


def generation_of(request: pb.GenerateRequest, request_id: str, standing: Standing) -> Generation:
    """Raises InvalidRequest. What is out of bounds is left to the service."""
    given, prompt, output_format = request.sampling, prompt_of(request), format_of(request)
    check_obeyable(
        output_format,
        prompt.tool_choice if isinstance(prompt, ChatPrompt) else ANY_CALLS,
        min_tokens=given.min_tokens,
        ignore_eos=given.ignore_eos,
        echo=request.echo,
    )
    return Generation(
        request_id=request_id,
        prompt=prompt,
        sampling=_sampling(request),
        n=request.n or 1,
        stop=tuple(request.stop),
        include_stop=request.include_stop,
        skip_special_tokens=not request.keep_special_tokens,
        echo=request.echo,
        cache_salt=_salt(request.cache_salt),
        seed=given.seed if given.HasField("seed") else None,
        standing=standing,
        output_format=output_format,
    )


def prompt_of(request: pb.GenerateRequest | pb.TokenizeRequest) -> Prompt:
    """Raises InvalidRequest for a request without a prompt, and for messages that are not supported."""
    kind = request.WhichOneof("prompt")
    if kind == "text":
        return TextPrompt(request.text, not request.no_special_tokens)
    if kind == "infill":
        return InfillPrompt(request.infill.prefix, request.infill.suffix, not request.no_special_tokens)
    if kind == "chat":
        return read_chat(request.chat)
    if isinstance(request, pb.GenerateRequest) and kind == "token_ids":
        return TokenPrompt(request.token_ids.ids, param="token_ids.ids")
    raise InvalidRequest("there is no prompt: set text, chat, token_ids or infill", param="prompt")


def field_place(param: str) -> str:
    """Where in a request of this protocol the field is that the service calls `param`."""
    name = _NAMES.get(param, param)
    field = re.split(r"[.\[]", name, maxsplit=1)[0]
    if field in _SAMPLING:
        return f"sampling.{name}"
    if field in _CHAT:
        return f"chat.{name}"
    return name.replace(_ARGS, f"chat.{_TEMPLATE_ARGS}", 1) if field == _ARGS else name


def _sampling(request: pb.GenerateRequest) -> SamplingParams:
    given = request.sampling
    return sampling_of(
        given,
        max_tokens=request.max_tokens,
        temperature=given.temperature if given.HasField("temperature") else None,
        top_p=given.top_p if given.HasField("top_p") else None,
        repetition_penalty=given.repetition_penalty if given.HasField("repetition_penalty") else None,
        num_logprobs=request.logprobs if request.HasField("logprobs") else None,
    )


def _salt(given: bytes) -> str:
    try:
        salt = given.decode()
    except UnicodeDecodeError:
        raise InvalidRequest("cache_salt is not UTF-8", param="cache_salt") from None
    if len(salt) > _MAX_SALT_CHARS:
        raise InvalidRequest(f"cache_salt has more than {_MAX_SALT_CHARS} characters", param="cache_salt")
    return salt
