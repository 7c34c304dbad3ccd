"""A response as the wire has it: what was asked for, what came of it, and what it took."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tailrace.frontends.http.answer import AnswerHead
from tailrace.frontends.http.openai.logprobs import ChatTokenLogprob, chat_logprobs
from tailrace.frontends.http.responses.schema import ResponseBody
from tailrace.service.api import TextLogprob, Usage
from tailrace.types import FinishReason

__all__ = [
    "Failed",
    "OutputMessage",
    "OutputText",
    "Response",
    "begun",
    "ended",
    "failed",
    "item_of",
    "status_of",
    "text_of",
]

Status = Literal["in_progress", "completed", "incomplete", "failed"]


class OutputText(Struct, tag_field="type", tag="output_text"):
    text: str
    logprobs: list[ChatTokenLogprob]
    annotations: tuple[()] = ()


class OutputMessage(Struct, tag_field="type", tag="message"):
    id: str
    status: Status
    content: list[OutputText]
    role: str = "assistant"


class InputDetails(Struct):
    """Besides what OpenAI's has, as in completions: the tokens by level, and why there were no more."""

    cached_tokens: int
    cached_tokens_details: dict[str, int]
    cache_miss_reason: str | None
    cache_write_tokens: int = 0  # computing is what fills the cache: it is no work of its own


class OutputDetails(Struct, frozen=True):
    reasoning_tokens: int = 0


class WireUsage(Struct):
    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    total_tokens: int
    output_tokens_details: OutputDetails = OutputDetails()


class Failed(Struct, frozen=True):
    code: str
    message: str


class Incomplete(Struct, frozen=True):
    reason: str = "max_output_tokens"


class Reasoning(Struct, frozen=True):
    effort: None = None
    summary: None = None


class TextFormat(Struct, frozen=True, tag_field="type", tag="text"):
    pass


class Text(Struct, frozen=True):
    format: TextFormat = TextFormat()
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
    output: list[OutputMessage] = []
    parallel_tool_calls: bool
    previous_response_id: None = None
    prompt_cache_key: str | None
    reasoning: Reasoning = Reasoning()
    safety_identifier: str | None
    service_tier: str | None
    store: bool = False
    temperature: float
    text: Text = Text()
    tool_choice: str = "auto"
    tools: tuple[()] = ()
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
        safety_identifier=fields.safety_identifier,
        service_tier=head.service_tier,
        temperature=1.0 if fields.temperature is None else fields.temperature,
        top_logprobs=fields.top_logprobs or 0,
        top_p=1.0 if fields.top_p is None else fields.top_p,
        user=fields.user,
    )


def text_of(text: str, logprobs: Iterable[TextLogprob] = ()) -> OutputText:
    return OutputText(text, chat_logprobs(logprobs).content)


def item_of(head: AnswerHead, status: Status, content: list[OutputText]) -> OutputMessage:
    """The one item that there is of a response."""
    return OutputMessage("msg_" + head.answer_id.partition("_")[2], status, content)


def status_of(finish_reason: FinishReason) -> Status:
    return "incomplete" if finish_reason is FinishReason.LENGTH else "completed"


def ended(response: Response, item: OutputMessage, usage: Usage) -> Response:
    """The response with what came of it, which has the status of its item."""
    incomplete = Incomplete() if item.status == "incomplete" else None
    return replace(response, status=item.status, output=[item], usage=_usage_of(usage), incomplete_details=incomplete)


def failed(response: Response, output: list[OutputMessage], error: Failed) -> Response:
    return replace(response, status="failed", output=output, error=error)


def _usage_of(usage: Usage) -> WireUsage:
    details = InputDetails(usage.cached_tokens, dict(usage.found), usage.miss_reason)
    return WireUsage(usage.prompt_tokens, details, usage.completion_tokens, usage.total_tokens)
