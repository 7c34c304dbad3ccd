"""Messages of our own protocol as what the service takes. Complaints name the field as the protocol does."""

import msgspec

from tailrace.errors import InvalidRequest
from tailrace.frontends.chat import Message, chat_prompt
from tailrace.frontends.grpc.sampling import sampling_of
from tailrace.frontends.grpc.v1 import inference_pb2 as pb
from tailrace.frontends.standing import Claim
from tailrace.frontends.values import TemplateArgs
from tailrace.service.api import Generation, InfillPrompt, Prompt, Standing, TextPrompt, TokenPrompt
from tailrace.types import SamplingParams

__all__ = ["claim_of", "field_place", "generation_of", "prompt_of"]

_MAX_SALT_CHARS = 512
_TEMPLATE_ARGS = msgspec.json.Decoder(TemplateArgs)
_SAMPLING = frozenset(pb.Sampling.DESCRIPTOR.fields_by_name)


def claim_of(request: pb.GenerateRequest) -> Claim:
    """What a request says of its class besides its metadata."""
    return Claim(service_tier=request.service_class or None, priority=request.priority or None, tenant=request.tenant)


def generation_of(request: pb.GenerateRequest, request_id: str, standing: Standing) -> Generation:
    """Raises InvalidRequest. What is out of bounds is left to the service."""
    given = request.sampling
    return Generation(
        request_id=request_id,
        prompt=prompt_of(request),
        sampling=_sampling(request),
        n=request.n or 1,
        stop=tuple(request.stop),
        include_stop=request.include_stop,
        skip_special_tokens=not request.keep_special_tokens,
        echo=request.echo,
        cache_salt=_salt(request.cache_salt),
        seed=given.seed if given.HasField("seed") else None,
        standing=standing,
    )


def prompt_of(request: pb.GenerateRequest | pb.TokenizeRequest) -> Prompt:
    """Raises InvalidRequest for a request without a prompt, and for messages that are not supported."""
    kind = request.WhichOneof("prompt")
    if kind == "text":
        return TextPrompt(request.text, not request.no_special_tokens)
    if kind == "infill":
        return InfillPrompt(request.infill.prefix, request.infill.suffix, not request.no_special_tokens)
    if kind == "chat":
        return _chat(request.chat)
    if isinstance(request, pb.GenerateRequest) and kind == "token_ids":
        return TokenPrompt(request.token_ids.ids, param="token_ids.ids")
    raise InvalidRequest("there is no prompt: set text, chat, token_ids or infill", param="prompt")


def field_place(param: str) -> str:
    """Where in a request of this protocol the field is that the service calls `param`."""
    if param in _SAMPLING:
        return f"sampling.{param}"
    if param.startswith("messages"):
        return f"chat.{param}"
    return {"service_tier": "service_class", "num_logprobs": "logprobs"}.get(param, param)


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


def _chat(chat: pb.Chat) -> Prompt:
    if not chat.messages:
        raise InvalidRequest("a chat has at least one message", param="messages")
    messages = [
        Message(role=each.role, content=each.content, name=each.name or None, reasoning_content=each.reasoning or None)
        for each in chat.messages
    ]
    return chat_prompt(
        messages,
        add_generation_prompt=None,
        continue_final_message=chat.is_continued,
        template_args=_template_args(chat.template_args),
    )


def _template_args(given: bytes) -> TemplateArgs | None:
    if not given:
        return None
    try:
        return _TEMPLATE_ARGS.decode(given)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(f"template_args: {error}", param="chat.template_args") from None


def _salt(given: bytes) -> str:
    try:
        salt = given.decode()
    except UnicodeDecodeError:
        raise InvalidRequest("cache_salt is not UTF-8", param="cache_salt") from None
    if len(salt) > _MAX_SALT_CHARS:
        raise InvalidRequest(f"cache_salt has more than {_MAX_SALT_CHARS} characters", param="cache_salt")
    return salt
