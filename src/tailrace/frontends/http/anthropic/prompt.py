"""A system text and turns as a `ChatPrompt`."""

from tailrace.errors import InvalidRequest
from tailrace.frontends.http.anthropic.schema import Questions
from tailrace.frontends.http.anthropic.thinking import wished_thinking
from tailrace.frontends.http.anthropic.tools import read_choice, read_tools
from tailrace.frontends.http.anthropic.turns import TEXT_TYPES, messages_of
from tailrace.frontends.parts import text_of
from tailrace.service.api import ChatPrompt

__all__ = ["prompt_of"]


def prompt_of(fields: Questions) -> ChatPrompt:
    """A last turn of the assistant's is the beginning of the answer.

    Raises InvalidRequest for what is not supported.
    """
    system = "" if fields.system is None else text_of(fields.system, "system", TEXT_TYPES)
    messages, tools, wish = messages_of(fields.messages), read_tools(fields), wished_thinking(fields)
    is_continued = fields.messages[-1].role == "assistant"
    if is_continued and "tool_calls" in messages[-1]:
        place = f"messages[{len(fields.messages) - 1}]"
        raise InvalidRequest(f"{place} has calls of tools: send their results after it", param=place)
    return ChatPrompt(
        [*([{"role": "system", "content": system}] if system else []), *messages],
        add_generation_prompt=not is_continued,
        continue_final_message=is_continued,
        template_args=fields.chat_template_kwargs or {},
        tools=tools,
        tool_choice=read_choice(fields, tools),
        thinking=wish.thinking,
        effort=wish.effort,
    )
