"""What happens to the fields of completions that this server has no use for. Every other field is in `schema`."""

from collections.abc import Mapping

from tailrace.frontends.fields import FieldRules, Refusal

__all__ = ["OPENAI_FIELDS"]


_ACCEPTED: Mapping[str, str] = {
    "user": "names the end user for abuse reports; it changes no token",
    "safety_identifier": "as user",
    "metadata": "is for the client's own bookkeeping",
    "prompt_cache_key": "caching is automatic and finds every shared prefix",
    "prompt_cache_options": "as prompt_cache_key",
    "prompt_cache_retention": "as prompt_cache_key",
    "return_cached_tokens_details": "usage always has them",
    "parallel_tool_calls": "says how to call tools, and there are none",
}
_TOOLS = "tools are not supported"
_GUIDED = "guided output is not supported"
_MEDIA = "only text is supported"
_REASONING = "reasoning is not told apart from the answer; pass chat_template_kwargs to steer the template"
_PREVIEW = "is not supported"

_REFUSED: Mapping[str, Refusal] = {
    "tools": Refusal(_TOOLS, ([],)),
    "tool_choice": Refusal(_TOOLS, ("none", "auto")),
    "functions": Refusal(_TOOLS, ([],)),
    "function_call": Refusal(_TOOLS, ("none", "auto")),
    "web_search_options": Refusal(_TOOLS),
    "response_format": Refusal(_GUIDED, ({"type": "text"},)),
    "structured_outputs": Refusal(_GUIDED),
    "guided_json": Refusal(_GUIDED),
    "guided_regex": Refusal(_GUIDED),
    "guided_choice": Refusal(_GUIDED),
    "guided_grammar": Refusal(_GUIDED),
    "regex": Refusal(_GUIDED),
    "ebnf": Refusal(_GUIDED),
    "audio": Refusal(_MEDIA),
    "modalities": Refusal(_MEDIA, (["text"],)),
    "thinking": Refusal(_REASONING, ({"type": "disabled"},)),
    "reasoning_effort": Refusal(_REASONING, ("none",)),
    "reasoning": Refusal(_REASONING),
    "include_reasoning": Refusal(_REASONING, (True,)),
    "thinking_token_budget": Refusal(_REASONING),
    "verbosity": Refusal("the length of answers is not steered; use max_tokens", ("medium",)),
    "store": Refusal("answers are not stored", (False,)),
    "prediction": Refusal("predicted output is not supported"),
    "moderation": Refusal("moderation is not supported"),
    "suffix": Refusal("a chat has no middle to fill in; use /completions", ("",)),
    "best_of": Refusal("candidates are not ranked; use n", (1,)),
    "echo": Refusal("a chat prompt is not echoed; use /completions", (False,)),
    "top_logprobs": Refusal("in /completions, logprobs takes the number", (0,)),
    "prompt_logprobs": Refusal("log probabilities of the prompt are not computed"),
    "use_beam_search": Refusal("beam search is not supported", (False,)),
    "length_penalty": Refusal("beam search is not supported", (1,)),
    "early_stopping": Refusal("beam search is not supported", (False,)),
    "allowed_token_ids": Refusal("use logit_bias to steer single tokens", ([],)),
    "bad_words": Refusal("use logit_bias to steer single tokens", ([],)),
    "logprob_token_ids": Refusal("log probabilities of chosen ids are not returned", ([],)),
    "stop_regex": Refusal("use stop for literal strings"),
    "chat_template": Refusal("the template of the model file is used"),
    "documents": Refusal("put documents into a message", ([],)),
    "add_special_tokens": Refusal("the chat template places the special tokens", (False,)),
    "spaces_between_special_tokens": Refusal("special tokens are joined as the tokenizer does", (True,)),
    "truncate_prompt_tokens": Refusal("prompts are not cut; shorten it before sending"),
    "truncation_side": Refusal("prompts are not cut; shorten it before sending"),
    "return_token_ids": Refusal("use logprobs, or /tokenize", (False,)),
    "return_tokens_as_token_ids": Refusal("use logprobs, or /tokenize", (False,)),
    "request_id": Refusal("send the header x-request-id"),
    "session_id": Refusal(_PREVIEW),
    "kv_transfer_params": Refusal(_PREVIEW),
    "vllm_xargs": Refusal(_PREVIEW),
    "custom_params": Refusal(_PREVIEW),
    "repetition_detection": Refusal(_PREVIEW),
    "stream_interval": Refusal("text is sent as soon as it is there", (1,)),
    "task": Refusal(_PREVIEW),
    "dry_multiplier": Refusal("this sampler is not supported", (0,)),
    "typical_p": Refusal("this sampler is not supported", (1,)),
    "mirostat": Refusal("this sampler is not supported", (0,)),
    "grammar": Refusal(_GUIDED),
    "json_schema": Refusal(_GUIDED),
}

OPENAI_FIELDS = FieldRules(_ACCEPTED, _REFUSED)
