"""Requests of vLLM's protocol as what the service takes. Complaints name the field as the protocol does."""

import struct
from typing import Any

import msgspec
from smg_grpc_proto.generated import vllm_engine_pb2 as pb

from tailrace.errors import InvalidRequest
from tailrace.frontends.grpc.sampling import sampling_of
from tailrace.frontends.output_format import (
    check_obeyable,
    choice_format,
    grammar_format,
    json_format,
    regex_format,
    schema_format,
)
from tailrace.service.api import ANY_CALLS, Generation, OutputFormat, Prompt, Standing, TextPrompt, TokenPrompt
from tailrace.types import SamplingParams

__all__ = ["field_place", "generation_of"]

_SAMPLING = frozenset(pb.SamplingParams.DESCRIPTOR.fields_by_name)
_NAMES = {"num_logprobs": "logprobs"}


def generation_of(request: pb.GenerateRequest, request_id: str, standing: Standing) -> Generation:
    """Raises InvalidRequest for a request without a prompt. What is out of bounds is left to the service."""
    given = request.sampling_params
    output_format = _format(given)
    check_obeyable(output_format, ANY_CALLS, min_tokens=given.min_tokens, ignore_eos=given.ignore_eos)
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
        output_format=output_format,
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
    return sampling_of(
        given,
        max_tokens=given.max_tokens if given.HasField("max_tokens") else 0,
        temperature=given.temperature if given.HasField("temperature") else None,
        top_p=given.top_p or None,
        repetition_penalty=given.repetition_penalty or None,
        num_logprobs=given.logprobs if given.HasField("logprobs") else None,
        meant=_decimal,
    )


def _format(given: pb.SamplingParams) -> OutputFormat | None:
    kind = given.WhichOneof("constraint")
    param = f"sampling_params.{kind}"
    match kind:
        case "json_schema":
            return schema_format(_schema(given.json_schema, param), param)
        case "regex":
            return regex_format(given.regex, param)
        case "grammar":
            return grammar_format(given.grammar, param)
        case "choice":
            return choice_format(given.choice.choices, f"{param}.choices")
        case "json_object" if given.json_object:
            return json_format(param)
        case _:
            return None


def _schema(given: str, param: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(given, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(f"{param} is no JSON schema: {error}", param=param) from None


def _decimal(single: float) -> float:
    """What was meant by a number of 32 bits, the shortest that rounds to it: 0.7, where it says 0.699999988."""
    wire = struct.pack("<f", single)
    tries = (float(f"{single:.{digits}g}") for digits in range(6, 10))
    return next((each for each in tries if struct.pack("<f", each) == wire), single)
