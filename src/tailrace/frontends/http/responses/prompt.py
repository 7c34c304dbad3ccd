"""Instructions and input items as a `ChatPrompt`."""

from collections.abc import Iterator

from tailrace.errors import InvalidRequest
from tailrace.frontends.http.responses.schema import Item, ResponseBody
from tailrace.frontends.parts import text_of
from tailrace.service.api import ChatPrompt

__all__ = ["prompt_of"]

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_MESSAGE_FIELDS = frozenset(("type", "role", "content", "id", "status", "phase"))  # the last are of answers
_TEXT_TYPES = {
    "input_text": frozenset(("prompt_cache_breakpoint",)),  # caching is automatic
    "output_text": frozenset(("annotations", "logprobs")),  # how earlier answers come back
}


def prompt_of(fields: ResponseBody) -> ChatPrompt:
    """Raises InvalidRequest for items that are no messages, and for what is no text."""
    return ChatPrompt(list(_messages(fields)), template_args=fields.chat_template_kwargs or {}, param="input")


def _messages(fields: ResponseBody) -> Iterator[dict[str, str]]:
    if fields.instructions:
        yield {"role": "system", "content": fields.instructions}
    if isinstance(fields.input, str):
        yield {"role": "user", "content": fields.input}
        return
    for place, item in enumerate(fields.input):
        yield _message(item, f"input[{place}]")


def _message(item: Item, place: str) -> dict[str, str]:
    kind = item.get("type", "message")
    if kind != "message":
        shown = repr(kind[:32]) if isinstance(kind, str) else "no name"
        raise InvalidRequest(f"{place}.type is {shown}; only messages are supported", param=f"{place}.type")
    for name, value in item.items():
        if name not in _MESSAGE_FIELDS and value is not None:
            param = f"{place}.{name[:64]}"
            raise InvalidRequest(f"unknown field {param!r}", param=param, code="unknown_parameter")
    return {"role": _role(item, place), "content": _text(item, place)}


def _role(item: Item, place: str) -> str:
    role = item.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise InvalidRequest(f"{place}.role must be one of {', '.join(_ROLES)}", param=f"{place}.role")
    return _ROLES[role]


def _text(item: Item, place: str) -> str:
    content, place = item.get("content"), f"{place}.content"
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise InvalidRequest(f"{place} must be a string or a list of parts", param=place)
    return text_of(content, place, _TEXT_TYPES)
