"""What happens to the fields of vLLM's protocol: obeyed, accepted since they change no token, or refused by name.

A field that is in none of the tables, of a newer version of the protocol, is refused too.
"""

from collections.abc import Mapping

import grpc
from google.protobuf.message import Message

from tailrace.frontends.fields import Refusal
from tailrace.frontends.grpc.failure import CallRefused

__all__ = ["ACCEPTED", "OBEYED", "REFUSED", "check_fields"]

_MEDIA = "only text is supported"
_HAND_OVER = "keys and values are not handed from server to server"

OBEYED = frozenset(
    (
        *("request_id", "tokenized", "text", "sampling_params", "stream"),
        *("temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty"),
        *("max_tokens", "min_tokens", "stop", "stop_token_ids", "skip_special_tokens", "ignore_eos", "n", "logprobs"),
        *("seed", "logit_bias"),
        *("json_schema", "regex", "grammar", "json_object", "choice"),
    )
)

ACCEPTED: Mapping[str, str] = {
    "include_stop_str_in_output": "whoever asks for tokens makes the text",
    "spaces_between_special_tokens": "as include_stop_str_in_output",
    "grammar_from_first_token": "what the answer must look like holds from the first token on, in any case",
}
"""Field -> why ignoring it is right."""

REFUSED: Mapping[str, Refusal] = {
    "kv_transfer_params": Refusal(_HAND_OVER),
    "kv_transfer_params_json": Refusal(_HAND_OVER, ("", "{}")),
    "mm_inputs": Refusal(_MEDIA),
    "extra_mm_inputs": Refusal(_MEDIA),
    "media_refs": Refusal(_MEDIA),
    "data_parallel_rank": Refusal("there is one rank, 0", (0,)),
    "prompt_logprobs": Refusal("log probabilities of the prompt are not computed"),
    "truncate_prompt_tokens": Refusal("prompts are not cut; shorten it before sending"),
    "structural_tag": Refusal("send json_schema, regex, grammar or choice"),
}

_UNKNOWN = Refusal("is not known here")


def check_fields(message: Message, place: str = "") -> None:
    """Raises CallRefused for the first field that asks for what is not there."""
    for field, value in message.ListFields():
        if field.name in OBEYED or field.name in ACCEPTED:
            continue
        refusal = REFUSED.get(field.name, _UNKNOWN)
        if not any(value == neutral for neutral in refusal.neutral):
            param = place + field.name
            raise CallRefused(
                grpc.StatusCode.UNIMPLEMENTED,
                f"{param} is refused: {refusal.reason}",
                param=param,
                code="unsupported_parameter",
            )
