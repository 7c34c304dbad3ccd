"""The bodies of messages, as typed structs. Tools and thinking will have their fields here."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from tailrace.frontends.http.body import Count, GenerationBody, StopString
from tailrace.frontends.parts import Content
from tailrace.frontends.values import Salt, TemplateArgs

__all__ = ["CountBody", "MessagesBody", "Turn"]


class Turn(Struct, forbid_unknown_fields=True):
    role: Literal["user", "assistant", "system"]
    content: Content


class Metadata(Struct, forbid_unknown_fields=True):
    user_id: Salt | None = None


Turns = Annotated[list[Turn], Meta(min_length=1)]
Speed = Literal["standard", "fast"]


class MessagesBody(GenerationBody, kw_only=True):
    """What the API has, and the sampling fields of the other endpoints besides."""

    messages: Turns
    max_tokens: Count
    system: Content | None = None
    stop_sequences: Annotated[list[StopString], Meta(max_length=4)] | None = None
    metadata: Metadata | None = None
    speed: Speed | None = None
    chat_template_kwargs: TemplateArgs | None = None


class CountBody(Struct, kw_only=True):
    messages: Turns
    model: str | None = None
    system: Content | None = None
    speed: Speed | None = None
    chat_template_kwargs: TemplateArgs | None = None
