"""What happens to the fields of messages that this server has no use for. Every other field is in `schema`."""

from collections.abc import Mapping

from tailrace.frontends.fields import FieldRules, Refusal

__all__ = ["ANTHROPIC_FIELDS"]

_ACCEPTED: Mapping[str, str] = {
    "cache_control": "caching is automatic and finds every shared prefix",
    "user_profile_id": "names the end user for reports; it changes no token",
    "workspace_id": "is for the client's own bookkeeping",
}

_TOOLS = "tools are not supported"
_KEPT = "nothing is kept between requests"
_CONTEXT = "the conversation is taken as it is sent; shorten it before sending"

_REFUSED: Mapping[str, Refusal] = {
    "tools": Refusal(_TOOLS, ([],)),
    "tool_choice": Refusal(_TOOLS, ({"type": "none"}, {"type": "auto"})),
    "mcp_servers": Refusal(_TOOLS, ([],)),
    "thinking": Refusal("thinking is not told apart from the answer", ({"type": "disabled"},)),
    "output_config": Refusal("neither effort nor format of answers is steered", ({},)),
    "output_format": Refusal("guided output is not supported"),
    "container": Refusal(_KEPT),
    "thread": Refusal(_KEPT),
    "diagnostics": Refusal(_KEPT),
    "context_management": Refusal(_CONTEXT, ({}, {"edits": []})),
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
