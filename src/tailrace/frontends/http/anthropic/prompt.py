"""A system text and turns as a `ChatPrompt`."""

from collections.abc import Sequence

from tailrace.frontends.http.anthropic.schema import CountBody, MessagesBody, Turn
from tailrace.frontends.parts import text_of
from tailrace.service.api import ChatPrompt

__all__ = ["prompt_of"]

_TEXT_TYPES = {"text": frozenset(("cache_control", "citations"))}  # neither changes what the model reads


def prompt_of(fields: MessagesBody | CountBody) -> ChatPrompt:
    """A last turn of the assistant's is the beginning of the answer. Raises InvalidRequest for what is no text."""
    system = "" if fields.system is None else text_of(fields.system, "system", _TEXT_TYPES)
    is_continued = fields.messages[-1].role == "assistant"
    return ChatPrompt(
        [*([{"role": "system", "content": system}] if system else []), *_messages(fields.messages)],
        add_generation_prompt=not is_continued,
        continue_final_message=is_continued,
        template_args=fields.chat_template_kwargs or {},
    )


def _messages(turns: Sequence[Turn]) -> list[dict[str, str]]:
    """Turns in a row of the same role are one, as in the API: many templates want roles to alternate."""
    messages: list[dict[str, str]] = []
    for place, turn in enumerate(turns):
        text = text_of(turn.content, f"messages[{place}].content", _TEXT_TYPES)
        if messages and messages[-1]["role"] == turn.role:
            messages[-1]["content"] += "\n" + text
        else:
            messages.append({"role": turn.role, "content": text})
    return messages
