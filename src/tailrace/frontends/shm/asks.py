"""An ask as a generation to start, strictly: whatever is wrong is refused with the name of the field."""

import msgspec
from msgspec import msgpack

from tailrace.classes import ServiceClasses
from tailrace.errors import InvalidRequest
from tailrace.frontends.chat_options import chat_prompt_of, format_wished, refuse_chat_options
from tailrace.frontends.complaint import invalid_value
from tailrace.frontends.nucleus import nucleus
from tailrace.frontends.output_format import check_obeyable
from tailrace.frontends.shm.wire import Ask
from tailrace.frontends.standing import ANYBODY, Claim, settle
from tailrace.service.api import ANY_CALLS, ChatPrompt, Generation, InfillPrompt, Prompt, Standing, TextPrompt
from tailrace.types import SamplingParams

__all__ = ["decode_ask", "field_name"]

_ASKS = msgpack.Decoder(Ask)


def decode_ask(content: memoryview, request_id: str, classes: ServiceClasses) -> Generation:
    """Raises InvalidRequest."""
    try:
        ask = _ASKS.decode(content)
    except msgspec.ValidationError as error:
        raise invalid_value(str(error)) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"the request is not valid msgpack: {error}", code="invalid_msgpack") from None
    prompt, output_format = _prompt(ask), format_wished(ask)
    choice = prompt.tool_choice if isinstance(prompt, ChatPrompt) else ANY_CALLS
    check_obeyable(output_format, choice, min_tokens=ask.min_tokens, ignore_eos=ask.ignore_eos)
    return Generation(
        request_id=request_id,
        prompt=prompt,
        sampling=_sampling(ask),
        n=ask.n,
        stop=tuple(ask.stop),
        seed=ask.seed,
        standing=_standing(ask, classes),
        output_format=output_format,
    )


def field_name(param: str) -> str:
    """What an ask calls the field that the service calls `param`."""
    return {"service_tier": "service_class", "num_logprobs": "logprobs"}.get(param, param)


def _prompt(ask: Ask) -> Prompt:
    if (ask.prompt is None) == (ask.messages is None):
        raise InvalidRequest("send either prompt or messages", param="prompt")
    if ask.messages is not None:
        if ask.suffix:
            raise InvalidRequest("suffix is text, and goes with a prompt of text", param="suffix")
        return chat_prompt_of(ask)
    refuse_chat_options(ask)
    text = ask.prompt or ""
    return InfillPrompt(text, ask.suffix) if ask.suffix else TextPrompt(text)


def _sampling(ask: Ask) -> SamplingParams:
    """Seeds are left to the service, which has one for each choice."""
    return SamplingParams(
        max_tokens=ask.max_tokens,
        temperature=ask.temperature,
        top_p=nucleus(ask.top_p),
        top_k=ask.top_k,
        min_p=ask.min_p,
        presence_penalty=ask.presence_penalty,
        frequency_penalty=ask.frequency_penalty,
        repetition_penalty=ask.repetition_penalty,
        logit_bias=tuple(ask.logit_bias.items()),
        min_tokens=ask.min_tokens,
        ignore_eos=ask.ignore_eos,
        stop_token_ids=tuple(ask.stop_token_ids),
        num_logprobs=ask.logprobs,
    )


def _standing(ask: Ask, classes: ServiceClasses) -> Standing:
    return settle(Claim(service_tier=ask.service_class or None, tenant=ask.tenant), ANYBODY, classes)
