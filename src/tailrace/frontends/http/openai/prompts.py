"""What the model is to continue: messages or raw prompts of the wire as `Prompt`s."""

from collections.abc import Mapping, Sequence

from tailrace.errors import InvalidRequest
from tailrace.frontends.http.openai.schema import ContentPart, Message, Scalar
from tailrace.service.api import ChatPrompt, InfillPrompt, Prompt, TextPrompt, TokenPrompt

__all__ = ["chat_prompt", "completion_prompts"]

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_TEXT_PART = frozenset(("type", "text", "cache_control"))  # the last changes nothing: caching is automatic
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
    if isinstance(content, str):
        return content
    if content is not None:
        return "\n".join(_part_text(part, f"{place}.content[{i}]") for i, part in enumerate(content))
    if message.role == "assistant":  # histories have turns that said nothing
        return ""
    raise InvalidRequest(f"{place}.content is missing", param=f"{place}.content")


def _part_text(part: ContentPart, place: str) -> str:
    kind, text = part.get("type"), part.get("text")
    if kind != "text":
        raise InvalidRequest(f"{place} has {_type_name(kind)}; only text is supported", param=place)
    for name, value in part.items():
        if name not in _TEXT_PART and value is not None:
            param = f"{place}.{name[:64]}"
            raise InvalidRequest(f"unknown field {param!r}", param=param, code="unknown_parameter")
    if not isinstance(text, str):
        raise InvalidRequest(f"{place}.text must be a string", param=f"{place}.text")
    return text


def _type_name(kind: object) -> str:
    return f"the type {kind[:32]!r}" if isinstance(kind, str) else "no type"


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
