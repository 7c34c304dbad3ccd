"""What the model is to continue: messages or raw prompts of the wire as `Prompt`s."""

from collections.abc import Mapping, Sequence

from tailrace.errors import InvalidRequest
from tailrace.frontends.http.body import Scalar
from tailrace.frontends.http.openai.schema import Message, PromptBody
from tailrace.frontends.http.parts import text_of
from tailrace.service.api import ChatPrompt, InfillPrompt, Prompt, TextPrompt, TokenPrompt

__all__ = ["chat_prompt", "completion_prompts", "one_prompt"]

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_TEXT_TYPES = {"text": frozenset(("cache_control",))}  # caching is automatic
_HISTORY = ("audio", "function_call", "tool_calls", "tool_call_id")


def chat_prompt(
    messages: Sequence[Message],
    *,
    add_generation_prompt: bool | None,
    continue_final_message: bool | None,
    template_args: Mapping[str, Scalar | list[Scalar] | dict[str, Scalar]] | None,
) -> ChatPrompt:
    """Raises InvalidRequest for roles and parts that are not supported."""
    is_continued = bool(continue_final_message) or _has_prefix(messages)
    if is_continued and add_generation_prompt:
        raise InvalidRequest(
            "the last message is either continued or followed by a new turn; set add_generation_prompt to false",
            param="add_generation_prompt",
        )
    return ChatPrompt(
        messages=[_plain_message(message, f"messages[{i}]") for i, message in enumerate(messages)],
        add_generation_prompt=not is_continued and add_generation_prompt is not False,
        continue_final_message=is_continued,
        template_args=template_args or {},
    )


def one_prompt(prompt: str | list[int] | None, fields: PromptBody) -> Prompt:
    """The prompt or the messages, whichever is given. Raises InvalidRequest for both, or neither."""
    if (prompt is None) == (fields.messages is None):
        raise InvalidRequest("send either prompt or messages", param="prompt")
    if fields.messages is None:
        return (
            TokenPrompt(prompt)
            if isinstance(prompt, list)
            else TextPrompt(prompt or "", fields.add_special_tokens is not False)
        )
    if fields.add_special_tokens:
        raise InvalidRequest("the chat template places the special tokens", param="add_special_tokens")
    return chat_prompt(
        fields.messages,
        add_generation_prompt=fields.add_generation_prompt,
        continue_final_message=fields.continue_final_message,
        template_args=fields.chat_template_kwargs,
    )


def _has_prefix(messages: Sequence[Message]) -> bool:
    """Whether the last message is marked as the start of the answer; no other may be."""
    for i, message in enumerate(messages):
        if message.prefix and (i + 1 < len(messages) or message.role != "assistant"):
            raise InvalidRequest(
                "only the last message, from the assistant, can be a prefix", param=f"messages[{i}].prefix"
            )
    return bool(messages[-1].prefix)


def _plain_message(message: Message, place: str) -> dict[str, str]:
    if message.role not in _ROLES:
        raise InvalidRequest(
            f"{place}.role is {message.role[:32]!r}; it must be one of {', '.join(_ROLES)}", param=f"{place}.role"
        )
    for name in _HISTORY:
        if getattr(message, name):
            param = f"{place}.{name}"
            raise InvalidRequest(f"{param} is refused: only text is supported", param=param)
    plain = {"role": _ROLES[message.role], "content": _text(message, place)}
    if message.name is not None:
        plain["name"] = message.name
    reasoning = message.reasoning_content if message.reasoning_content is not None else message.reasoning
    if reasoning is not None:
        plain["reasoning_content"] = reasoning
    return plain


def _text(message: Message, place: str) -> str:
    content = message.content
    if content is not None:
        return text_of(content, f"{place}.content", _TEXT_TYPES)
    if message.role == "assistant":  # histories have turns that said nothing
        return ""
    raise InvalidRequest(f"{place}.content is missing", param=f"{place}.content")


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
