"""A response as the wire has it: what was asked for, what came of it, and what it took."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tailrace.frontends.http.answer import AnswerHead
from tailrace.frontends.http.responses.items import Item, Status
from tailrace.frontends.http.responses.schema import ResponseBody
from tailrace.frontends.parts import Part
from tailrace.service.api import Usage
from tailrace.types import FinishReason

__all__ = ["Failed", "Response", "begun", "ended", "failed", "status_of"]


class InputDetails(Struct):
    """Besides what OpenAI's has, as in completions: the tokens by level, and why there were no more."""

    cached_tokens: int
    cached_tokens_details: dict[str, int]
    cache_miss_reason: str | None
    cache_write_tokens: int = 0  # computing is what fills the cache: it is no work of its own


class OutputDetails(Struct, frozen=True):
    reasoning_tokens: int


class WireUsage(Struct):
    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class Failed(Struct, frozen=True):
    code: str
    message: str


class Incomplete(Struct, frozen=True):
    reason: str = "max_output_tokens"


class Reasoning(Struct, frozen=True):
    effort: str | None = None
    summary: None = None  # there is none: reasoning comes whole


class Text(Struct, frozen=True):
    format: Part
    verbosity: str = "medium"


class Response(Struct, kw_only=True):
    id: str
    object: str = "response"
    created_at: int
    status: Status = "in_progress"
    background: bool = False
    error: Failed | None = None
    incomplete_details: Incomplete | None = None
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    metadata: dict[str, str]
    model: str
    output: Sequence[Item] = ()
    parallel_tool_calls: bool
    previous_response_id: None = None
    prompt_cache_key: str | None
    reasoning: Reasoning
    safety_identifier: str | None
    service_tier: str | None
    store: bool = False
    temperature: float
    text: Text
    tool_choice: str | Part
    tools: Sequence[Part]
    top_logprobs: int
    top_p: float
    truncation: str = "disabled"
    usage: WireUsage | None = None
    user: str | None


def begun(head: AnswerHead, fields: ResponseBody) -> Response:
    """The response before anything has come of it."""
    return Response(
        id=head.answer_id,
        created_at=head.created_s,
        instructions=fields.instructions,
        max_output_tokens=fields.max_output_tokens,
        max_tool_calls=fields.max_tool_calls,
        metadata=fields.metadata or {},
        model=head.model,
        parallel_tool_calls=fields.parallel_tool_calls is not False,
        prompt_cache_key=fields.prompt_cache_key,
        reasoning=Reasoning(None if fields.reasoning is None else fields.reasoning.effort),
        safety_identifier=fields.safety_identifier,
        service_tier=head.service_tier,
        text=Text(_format_of(fields)),
        temperature=1.0 if fields.temperature is None else fields.temperature,
        tool_choice="auto" if fields.tool_choice is None else fields.tool_choice,
        tools=fields.tools or (),
        top_logprobs=fields.top_logprobs or 0,
        top_p=1.0 if fields.top_p is None else fields.top_p,
        user=fields.user,
    )


def _format_of(fields: ResponseBody) -> Part:
    return (None if fields.text is None else fields.text.format) or {"type": "text"}


def status_of(finish_reason: FinishReason) -> Status:
    return "incomplete" if finish_reason is FinishReason.LENGTH else "completed"


def ended(response: Response, output: Sequence[Item], finish_reason: FinishReason, usage: Usage) -> Response:
    """The response with what came of it."""
    status = status_of(finish_reason)
    incomplete = Incomplete() if status == "incomplete" else None
    return replace(response, status=status, output=output, usage=_usage_of(usage), incomplete_details=incomplete)


def failed(response: Response, output: Sequence[Item], error: Failed) -> Response:
    return replace(response, status="failed", output=output, error=error)


def _usage_of(usage: Usage) -> WireUsage:
    details = InputDetails(usage.cached_tokens, dict(usage.found), usage.miss_reason)
    reasoning = OutputDetails(usage.reasoning_tokens)
    return WireUsage(usage.prompt_tokens, details, usage.completion_tokens, reasoning, usage.total_tokens)
