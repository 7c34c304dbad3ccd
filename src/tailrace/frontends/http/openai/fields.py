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
}
_OF_CHATS = "is for chats; use /chat/completions"
_MEDIA = "only text is supported"
_PREVIEW = "is not supported"

_REFUSED: Mapping[str, Refusal] = {
    "tools": Refusal(_OF_CHATS, ([],)),
    "tool_choice": Refusal(_OF_CHATS, ("none", "auto")),
    "parallel_tool_calls": Refusal(_OF_CHATS, (True, False)),
    "functions": Refusal("send tools", ([],)),
    "function_call": Refusal("send tool_choice", ("none", "auto")),
    "web_search_options": Refusal("nothing is searched; offer a function that does as one of the tools"),
    "guided_json": Refusal("send structured_outputs.json"),
    "guided_regex": Refusal("send structured_outputs.regex"),
    "guided_choice": Refusal("send structured_outputs.choice"),
    "guided_grammar": Refusal("send structured_outputs.grammar"),
    "guided_json_object": Refusal("send structured_outputs.json_object", (False,)),
    "regex": Refusal("send structured_outputs.regex"),
    "ebnf": Refusal("send structured_outputs.grammar"),
    "audio": Refusal(_MEDIA),
    "modalities": Refusal(_MEDIA, (["text"],)),
    "thinking": Refusal(_OF_CHATS, ({"type": "disabled"}, False)),
    "reasoning_effort": Refusal(_OF_CHATS, ("none",)),
    "reasoning": Refusal("send reasoning_effort, or thinking"),
    "include_reasoning": Refusal(_OF_CHATS, (True,)),
    "thinking_token_budget": Refusal("thinking is bounded by max_tokens alone; send reasoning_effort"),
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
    "grammar": Refusal("send structured_outputs.grammar"),
    "json_schema": Refusal("send response_format, or structured_outputs.json"),
}

OPENAI_FIELDS = FieldRules(_ACCEPTED, _REFUSED)
