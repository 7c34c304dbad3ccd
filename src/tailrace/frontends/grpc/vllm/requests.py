"""Requests of vLLM's protocol as what the service takes. Complaints name the field as the protocol does."""

import struct

from smg_grpc_proto.generated import vllm_engine_pb2 as pb

from tailrace.errors import InvalidRequest
from tailrace.frontends.nucleus import nucleus
from tailrace.service.api import Generation, Prompt, Standing, TextPrompt, TokenPrompt
from tailrace.types import SamplingParams

__all__ = ["field_place", "generation_of"]

_SAMPLING = frozenset(pb.SamplingParams.DESCRIPTOR.fields_by_name)
_NAMES = {"num_logprobs": "logprobs"}


def generation_of(request: pb.GenerateRequest, request_id: str, standing: Standing) -> Generation:
    """Raises InvalidRequest for a request without a prompt. What is out of bounds is left to the service."""
    given = request.sampling_params
    return Generation(
        request_id=request_id,
        prompt=_prompt(request),
        sampling=_sampling(given),
        n=given.n or 1,
        stop=tuple(given.stop),
        skip_special_tokens=given.skip_special_tokens,
        is_text_wanted=False,
        seed=given.seed if given.HasField("seed") else None,
        standing=standing,
    )


def field_place(param: str) -> str:
    """Where in a request of this protocol the field is that the service calls `param`."""
    name = _NAMES.get(param, param)
    return f"sampling_params.{name}" if name in _SAMPLING else name


def _prompt(request: pb.GenerateRequest) -> Prompt:
    kind = request.WhichOneof("input")
    if kind == "text":
        return TextPrompt(request.text)
    if kind == "tokenized":
        return TokenPrompt(request.tokenized.input_ids, param="tokenized.input_ids")
    raise InvalidRequest("there is no prompt: set tokenized or text", param="input")


def _sampling(given: pb.SamplingParams) -> SamplingParams:
    """0 stands for what was not sent where it has no meaning of its own, as in vLLM."""
    return SamplingParams(
        max_tokens=given.max_tokens if given.HasField("max_tokens") else 0,
        temperature=_decimal(given.temperature) if given.HasField("temperature") else 1.0,
        top_p=nucleus(_decimal(given.top_p)) if given.top_p else 1.0,
        top_k=given.top_k,
        min_p=_decimal(given.min_p),
        presence_penalty=_decimal(given.presence_penalty),
        frequency_penalty=_decimal(given.frequency_penalty),
        repetition_penalty=_decimal(given.repetition_penalty) if given.repetition_penalty else 1.0,
        logit_bias=tuple((token_id, _decimal(bias)) for token_id, bias in given.logit_bias.items()),
        min_tokens=given.min_tokens,
        ignore_eos=given.ignore_eos,
        stop_token_ids=tuple(given.stop_token_ids),
        num_logprobs=given.logprobs if given.HasField("logprobs") else None,
    )


def _decimal(single: float) -> float:
    """What was meant by a number of 32 bits, the shortest that rounds to it: 0.7, where it says 0.699999988."""
    wire = struct.pack("<f", single)
    tries = (float(f"{single:.{digits}g}") for digits in range(6, 10))
    return next((each for each in tries if struct.pack("<f", each) == wire), single)
