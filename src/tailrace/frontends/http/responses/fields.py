"""What happens to the fields of responses that this server has no use for. Every other field is in `schema`."""

from collections.abc import Mapping

from tailrace.frontends.fields import FieldRules, Refusal

__all__ = ["RESPONSE_FIELDS"]

_ACCEPTED: Mapping[str, str] = {
    "prompt_cache_options": "caching is automatic and finds every shared prefix",
    "prompt_cache_retention": "as prompt_cache_options",
    "client_metadata": "is for the client's own bookkeeping",
}

_STORED = "nothing is stored: send the whole conversation as input"

_REFUSED: Mapping[str, Refusal] = {
    "store": Refusal("answers are not stored", (False,)),
    "previous_response_id": Refusal(_STORED),
    "conversation": Refusal(_STORED),
    "prompt": Refusal(_STORED),
    "background": Refusal(_STORED, (False,)),
    "background_options": Refusal(_STORED),
    "context_management": Refusal(_STORED, ([],)),
    "moderation": Refusal("moderation is not supported"),
    "image": Refusal("only text is supported"),
    "access_programs": Refusal("there are none"),
    "n": Refusal("a response has one answer", (1,)),
    "max_tokens": Refusal("send max_output_tokens"),
    "max_completion_tokens": Refusal("send max_output_tokens"),
    "logprobs": Refusal("include message.output_text.logprobs, and send their number as top_logprobs", (False,)),
    "messages": Refusal("send input"),
    "response_format": Refusal("send text.format", ({"type": "text"},)),
    "reasoning_effort": Refusal("send reasoning.effort"),
}

RESPONSE_FIELDS = FieldRules(_ACCEPTED, _REFUSED)
