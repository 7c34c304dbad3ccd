"""Whether and how much a message is to be thought about, and what its answer is to look like."""

from collections.abc import Mapping

from msgspec import Struct

from tailrace.errors import InvalidRequest
from tailrace.frontends.http.anthropic.schema import (
    AdaptiveThinking,
    DisabledThinking,
    EnabledThinking,
    JsonSchemaFormat,
    MessagesBody,
    Questions,
)
from tailrace.frontends.output_format import schema_format
from tailrace.frontends.thinking import ThinkingWish, thinking_wish
from tailrace.frontends.typed_parts import typed_part
from tailrace.service.api import OutputFormat

__all__ = ["format_of_output", "shows_thinking", "wished_thinking"]

_THINKING: Mapping[str, type[Struct]] = {
    "enabled": EnabledThinking,
    "adaptive": AdaptiveThinking,
    "disabled": DisabledThinking,
}
_FORMATS = {"json_schema": JsonSchemaFormat}


def wished_thinking(fields: Questions) -> ThinkingWish:
    """Raises InvalidRequest for a kind of thinking that is not there, and for wishes that contradict each other."""
    thinking = _thinking(fields)
    is_on = None if thinking is None else not isinstance(thinking, DisabledThinking)
    effort = None if fields.output_config is None else fields.output_config.effort
    if is_on is False:
        effort = None  # here it is about all of an answer; a model has effort in its thinking alone
    return thinking_wish(is_on, effort, fields.chat_template_kwargs, effort_param="output_config.effort")


def shows_thinking(fields: MessagesBody) -> bool:
    """Raises InvalidRequest for a budget that leaves no room for an answer."""
    thinking = _thinking(fields)
    if isinstance(thinking, EnabledThinking) and thinking.budget_tokens >= fields.max_tokens:
        raise InvalidRequest(
            f"thinking.budget_tokens ({thinking.budget_tokens}) must be less than max_tokens ({fields.max_tokens})",
            param="thinking.budget_tokens",
        )
    return not (isinstance(thinking, EnabledThinking | AdaptiveThinking) and thinking.display == "omitted")


def format_of_output(fields: MessagesBody) -> OutputFormat | None:
    """Raises InvalidRequest for a format that is not there, or too large."""
    if fields.output_config is None or fields.output_config.format is None:
        return None
    wish = typed_part(fields.output_config.format, _FORMATS, "output_config.format")
    assert isinstance(wish, JsonSchemaFormat)
    return schema_format(wish.schema, "output_config.format.schema")


def _thinking(fields: Questions) -> Struct | None:
    return None if fields.thinking is None else typed_part(fields.thinking, _THINKING, "thinking")
