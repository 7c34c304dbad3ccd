"""What happens to the fields of messages that this server has no use for. Every other field is in `schema`."""

from collections.abc import Mapping

from tailrace.frontends.fields import FieldRules, Refusal

__all__ = ["ANTHROPIC_FIELDS"]

_ACCEPTED: Mapping[str, str] = {
    "cache_control": "caching is automatic and finds every shared prefix",
    "user_profile_id": "names the end user for reports; it changes no token",
    "workspace_id": "is for the client's own bookkeeping",
}

_KEPT = "nothing is kept between requests"
_CONTEXT = "the conversation is taken as it is sent; shorten it before sending"
_KEEPS_ALL = {"type": "clear_thinking_20251015", "keep": "all"}

_REFUSED: Mapping[str, Refusal] = {
    "mcp_servers": Refusal("the server calls no tools itself", ([],)),
    "output_format": Refusal("send output_config.format"),
    "reasoning_effort": Refusal("send output_config.effort"),
    "container": Refusal(_KEPT),
    "thread": Refusal(_KEPT),
    "diagnostics": Refusal(_KEPT),
    "context_management": Refusal(_CONTEXT, ({}, {"edits": []}, {"edits": [_KEEPS_ALL]})),
    "compaction": Refusal(_CONTEXT),
    "inference_geo": Refusal("answers are computed where this server stands"),
    "billing_policy": Refusal("nothing is billed"),
    "fallbacks": Refusal("one model is served", ([],)),
    "fallback_credit_token": Refusal("one model is served"),
    "stop": Refusal("send stop_sequences", ([],)),
    "n": Refusal("a message has one answer", (1,)),
    "top_logprobs": Refusal("messages have no log probabilities", (0,)),
    "logprobs": Refusal("messages have no log probabilities", (False,)),
}

ANTHROPIC_FIELDS = FieldRules(_ACCEPTED, _REFUSED)
