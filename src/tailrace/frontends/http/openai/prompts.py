"""What the model is to continue: messages or raw prompts of the wire as `Prompt`s."""

from collections.abc import Sequence

from tailrace.errors import InvalidRequest
from tailrace.frontends.chat import Message, chat_prompt
from tailrace.frontends.function_tools import tool_choice, tools
from tailrace.frontends.http.openai.schema import ChatBody, PromptBody, Thinking
from tailrace.service.api import ChatPrompt, InfillPrompt, Prompt, TextPrompt, TokenPrompt

__all__ = ["completion_prompts", "messages_prompt", "one_prompt"]


def messages_prompt(messages: Sequence[Message], fields: ChatBody | PromptBody) -> ChatPrompt:
    """Messages, rendered as the fields beside them say. Raises InvalidRequest."""
    offered = tools(fields.tools)
    return chat_prompt(
        messages,
        add_generation_prompt=fields.add_generation_prompt,
        continue_final_message=fields.continue_final_message,
        template_args=fields.chat_template_kwargs,
        tools=offered,
        tool_choice=tool_choice(fields.tool_choice, offered, is_parallel=fields.parallel_tool_calls),
        thinking=_is_on(fields.thinking),
        effort=fields.reasoning_effort,
    )


def _is_on(thinking: Thinking | bool | None) -> bool | None:
    return thinking.type == "enabled" if isinstance(thinking, Thinking) else thinking


def one_prompt(prompt: str | list[int] | None, fields: PromptBody) -> Prompt:
    """The prompt or the messages, whichever is given. Raises InvalidRequest for both, or neither."""
    if (prompt is None) == (fields.messages is None):
        raise InvalidRequest("send either prompt or messages", param="prompt")
    if fields.messages is not None:
        if fields.add_special_tokens:
            raise InvalidRequest("the chat template places the special tokens", param="add_special_tokens")
        return messages_prompt(fields.messages, fields)
    if fields.tools:
        raise InvalidRequest("tools go with messages, not with a prompt", param="tools")
    if isinstance(prompt, list):
        return TokenPrompt(prompt)
    return TextPrompt(prompt or "", fields.add_special_tokens is not False)


def completion_prompts(
    prompt: str | list[str | int | list[int]], suffix: str, *, add_special_tokens: bool
) -> list[Prompt]:
    """One prompt for a string or a list of ids, several for a list of either. Raises InvalidRequest for a mixture.

    An empty suffix is none: what comes before nothing is continued like any text.
    """
    prompts = _continued_prompts(prompt, add_special_tokens=add_special_tokens)
    return [_before(prompt, suffix) for prompt in prompts] if suffix else prompts


def _before(prompt: Prompt, suffix: str) -> InfillPrompt:
    if not isinstance(prompt, TextPrompt):
        raise InvalidRequest("suffix goes with a prompt of text, not of token ids", param="suffix")
    return InfillPrompt(prompt.text, suffix, prompt.add_special_tokens)


def _continued_prompts(prompt: str | list[str | int | list[int]], *, add_special_tokens: bool) -> list[Prompt]:
    if isinstance(prompt, str):
        return [TextPrompt(prompt, add_special_tokens)]
    texts = [part for part in prompt if isinstance(part, str)]
    id_lists = [part for part in prompt if isinstance(part, list)]
    if len(texts) == len(prompt):
        return [TextPrompt(text, add_special_tokens) for text in texts]
    if len(id_lists) == len(prompt):
        return [TokenPrompt(ids) for ids in id_lists]
    ids = [part for part in prompt if isinstance(part, int)]
    if len(ids) < len(prompt):
        raise InvalidRequest("a list of prompts is all strings, all token ids, or all lists of ids", param="prompt")
    return [TokenPrompt(ids)]
