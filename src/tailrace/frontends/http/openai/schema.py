"""The bodies that are obeyed, as typed structs. `null` is the same as absent; bounds are those of the OpenAI API."""

from typing import Annotated

from msgspec import Meta, Struct

__all__ = [
    "ChatBody",
    "CompletionBody",
    "ContentPart",
    "DetokenizeBody",
    "Message",
    "SamplingBody",
    "StreamOptions",
    "TokenizeBody",
]

Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
TokenId = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Share = Annotated[float, Meta(ge=0, le=1)]
Bias = Annotated[float, Meta(ge=-100, le=100)]
StopString = Annotated[str, Meta(min_length=1, max_length=1024)]
TopLogprobs = Annotated[int, Meta(ge=0, le=20)]
Salt = Annotated[str, Meta(min_length=1, max_length=512)]

# Template variables nest only so far that no template can recurse over them without end.
Scalar = str | int | float | bool | None
TemplateArgs = Annotated[dict[str, Scalar | list[Scalar] | dict[str, Scalar]], Meta(max_length=64)]


class StreamOptions(Struct, forbid_unknown_fields=True):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None
    include_obfuscation: bool | None = None


ContentPart = dict[str, object]
"""A part of a message, not yet looked at: its `type` decides what else may be in it."""


class Message(Struct, forbid_unknown_fields=True, kw_only=True):
    """One turn. The fields after `prefix` come back in histories; they must be empty."""

    role: str
    content: str | list[ContentPart] | None = None
    name: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    prefix: bool | None = None
    refusal: str | None = None
    annotations: list[object] | None = None
    audio: object = None
    function_call: object = None
    tool_calls: list[object] | None = None
    tool_call_id: str | None = None


Messages = Annotated[list[Message], Meta(min_length=1)]


class SamplingBody(Struct, kw_only=True):
    """What both kinds of completion take."""

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Count | None = None
    max_tokens: Count | None = None
    min_tokens: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Share | None = None
    top_k: Annotated[int, Meta(ge=-1, le=2**31 - 1)] | None = None
    min_p: Share | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_penalty: Annotated[float, Meta(gt=0, le=10)] | None = None
    logit_bias: Annotated[dict[str, Bias], Meta(max_length=1024)] | None = None
    stop: StopString | Annotated[list[StopString], Meta(max_length=4)] | None = None
    stop_token_ids: Annotated[list[TokenId], Meta(max_length=256)] | None = None
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    include_stop_str_in_output: bool | None = None
    cache_salt: Salt | None = None
    user_id: Salt | None = None


class ChatBody(SamplingBody, kw_only=True):
    messages: Messages
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: TemplateArgs | None = None
    max_completion_tokens: Count | None = None
    logprobs: bool | None = None
    top_logprobs: TopLogprobs | None = None


class CompletionBody(SamplingBody, kw_only=True):
    prompt: str | Annotated[list[str | TokenId | list[TokenId]], Meta(min_length=1)]
    logprobs: TopLogprobs | bool | None = None  # false: none; true is refused, as it gives no number
    suffix: str | None = None
    echo: bool | None = None
    best_of: Count | None = None
    add_special_tokens: bool | None = None


class TokenizeBody(Struct, kw_only=True):
    """Either a prompt or messages."""

    model: str | None = None
    prompt: str | None = None
    messages: Messages | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: TemplateArgs | None = None
    return_token_strs: bool | None = None


class DetokenizeBody(Struct, kw_only=True):
    model: str | None = None
    tokens: list[TokenId]
