"""The model's own chat template as a format, and what its text tells of the model."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tailrace.errors import InvalidRequest
from tailrace.service.api import ChatPrompt
from tailrace.service.chat import ChatTemplate
from tailrace.service.formats.conversation import Role, wants_thinking
from tailrace.service.formats.format import ChatEncoder, EncodedChat
from tailrace.service.markup import Guard
from tailrace.service.messages import plain_message

__all__ = ["TemplateEncoder", "TemplateOrTools", "involves_tools"]

_OPENED = re.compile(r"(?:<think>\s*(?:</think>\s*)?|</think>\s*)\Z")
_TAG = re.compile(r"</?think>")
_THINK, _END_THINK = "<think>\n", "\n</think>\n\n"


class TemplateEncoder:
    """Markup that people typed is never the template's: a guard tells them apart. `reasons`: the model may think."""

    def __init__(self, template: ChatTemplate, new_guard: Callable[[], Guard], *, reasons: bool = False) -> None:
        self._template = template
        self._new_guard = new_guard
        self._reasons = reasons

    def encode(self, prompt: ChatPrompt) -> EncodedChat:
        guard = self._new_guard()
        if prompt.continue_final_message and self._reasons and _is_thought_alone(prompt):
            rendered, opened = self._continue_thought(prompt, guard)
        else:
            rendered = self._template.render(prompt, guard)
            opened = self._opened(prompt, guard, rendered)
            if self._is_to_be_closed(prompt, opened):
                rendered, opened = rendered + _END_THINK, opened + _END_THINK
        return EncodedChat(guard.cut(rendered), guard.release(opened))

    def _opened(self, prompt: ChatPrompt, guard: Guard, rendered: str) -> str:
        """The end of a rendered prompt that belongs to the answer."""
        if prompt.continue_final_message:
            return self._opened_by_message(prompt, guard, rendered)
        found = _OPENED.search(rendered, max(len(rendered) - 64, 0)) if self._reasons else None
        if found is None or not prompt.add_generation_prompt:
            return ""
        # A tag that stands there in any case is of a message that the template has closed.
        without = self._template.render(replace(prompt, add_generation_prompt=False), guard)
        return "" if without.startswith(rendered[: found.end()]) else found[0]

    def _opened_by_message(self, prompt: ChatPrompt, guard: Guard, rendered: str) -> str:
        content: str = plain_message(prompt.messages[-1], len(prompt.messages) - 1)["content"]
        if not self._reasons:
            return content
        before = replace(
            prompt, messages=prompt.messages[:-1], continue_final_message=False, add_generation_prompt=False
        )
        history = self._template.render(before, guard) if before.messages else ""
        tag = _TAG.search(rendered, len(history)) if rendered.startswith(history) else None
        return content if tag is None else rendered[tag.start() :]

    def _is_to_be_closed(self, prompt: ChatPrompt, opened: str) -> bool:
        """The model shall not think, and the template has nothing to say so with."""
        return opened.rstrip() == "<think>" and not wants_thinking(prompt, default=True)

    def _continue_thought(self, prompt: ChatPrompt, guard: Guard) -> tuple[str, str]:
        """A thought is left out of messages by most templates, so it is put behind the header of an answer."""
        last = prompt.messages[-1]
        before = replace(
            prompt,
            messages=prompt.messages[:-1],
            continue_final_message=False,
            add_generation_prompt=True,
            thinking=True,
        )
        rendered = self._template.render(before, guard)
        opened = self._opened(before, guard, rendered)
        if opened.rstrip() != "<think>":
            rendered, opened = rendered.removesuffix(opened) + _THINK, _THINK
        thought = guard.protect_text(_thought(last))
        return rendered + thought, opened + thought


class TemplateOrTools:
    """The model's template, which knows no tools, and another encoder of the family for conversations that have some.

    Without such an encoder they are refused: the template would leave them out and nobody would know.
    """

    def __init__(self, template: TemplateEncoder, with_tools: ChatEncoder | None) -> None:
        self._template = template
        self._with_tools = with_tools

    def encode(self, prompt: ChatPrompt) -> EncodedChat:
        param = involves_tools(prompt)
        if not param:
            return self._template.encode(prompt)
        if self._with_tools is None:
            raise InvalidRequest(f"this model's chat template knows no tools; leave {param!r} out", param=param)
        return self._with_tools.encode(prompt)


def involves_tools(prompt: ChatPrompt) -> str:
    """The field that has tools, calls or results; empty: there are none."""
    if prompt.shown_tools:
        return "tools"
    for place, message in enumerate(prompt.messages):
        if isinstance(message, Mapping) and message.get("tool_calls"):
            return f"messages[{place}].tool_calls"
        if isinstance(message, Mapping) and message.get("role") == Role.TOOL:
            return f"messages[{place}].role"
    return ""


def _is_thought_alone(prompt: ChatPrompt) -> bool:
    last = prompt.messages[-1] if prompt.messages else None
    return isinstance(last, Mapping) and not last.get("content") and bool(_thought(last))


def _thought(message: Mapping[str, Any]) -> str:
    thought = message.get("reasoning_content") or message.get("reasoning")
    return thought if isinstance(thought, str) else ""
