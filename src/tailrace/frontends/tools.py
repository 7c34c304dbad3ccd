"""Tools, the choice among them, and earlier calls as clients send them. What is wrong is refused with its place.

A front end makes of each tool that it reads a `Tool` with `tool_of`, of all of them a tuple with `tools_of`, and of
what its clients say of calling them a `ToolChoice` with `choice_of`. Calls in a history get the shape that `ChatPrompt`
has with `call_of`; `CallHistory` knows which results belong to one.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tailrace.errors import InvalidRequest
from tailrace.service.api import ANY_CALLS, Tool, ToolChoice, ToolMode

__all__ = [
    "MAX_SCHEMA_BYTES",
    "MAX_TOOLS",
    "CallHistory",
    "ToolName",
    "call_of",
    "choice_of",
    "schema_text",
    "tool_of",
    "tools_of",
]

MAX_TOOLS = 128
MAX_SCHEMA_BYTES = 256 << 10
_MAX_DESCRIPTION_CHARS = 64 << 10
_MAX_ID_CHARS = 256

_NAME = "^[a-zA-Z0-9_.-]{1,64}(?!\n)$"
_is_name = re.compile(_NAME).match

ToolName = Annotated[str, Meta(pattern=_NAME)]
"""For schemas of bodies; `tool_of` checks it too."""


def tool_of(
    name: str,
    description: str | None,
    parameters: Mapping[str, Any] | None,
    *,
    strict: bool | None = None,
    place: str,
    schema_field: str = "parameters",
) -> Tool:
    """One function. `place` is where its fields are, such as `tools[2].function`. Raises InvalidRequest."""
    if not _is_name(name):
        raise InvalidRequest(
            f"{place}.name is {name[:80]!r}; a name is 1 to 64 of the characters a-z, A-Z, 0-9, '_', '.' and '-'",
            param=f"{place}.name",
        )
    if description is not None and len(description) > _MAX_DESCRIPTION_CHARS:
        param = f"{place}.description"
        raise InvalidRequest(f"{param} has more than {_MAX_DESCRIPTION_CHARS:,} characters", param=param)
    schema = parameters or {}
    _check_parameters(schema, f"{place}.{schema_field}")
    return Tool(name, description or "", schema, bool(strict))


def _check_parameters(schema: Mapping[str, Any], param: str) -> None:
    schema_text(schema, param)
    if (kind := schema.get("type", "object")) != "object":
        raise InvalidRequest(
            f'{param}.type is {str(kind)[:32]!r}; arguments are an object: {{"type": "object", "properties": ...}}',
            param=f"{param}.type",
        )


def schema_text(schema: Mapping[str, Any], param: str) -> str:
    """A JSON schema as JSON. Raises InvalidRequest for one that is too large."""
    try:
        text = msgspec.json.encode(schema)
    except (OverflowError, ValueError, TypeError, RecursionError):
        raise InvalidRequest(f"{param} has a number too large or is nested too deeply", param=param) from None
    if len(text) > MAX_SCHEMA_BYTES:
        raise InvalidRequest(f"{param} has {len(text):,} bytes; a schema has at most {MAX_SCHEMA_BYTES:,}", param=param)
    return text.decode()


def tools_of(tools: Iterable[Tool], param: str = "tools") -> tuple[Tool, ...]:
    """All tools of a request. Raises InvalidRequest for too many, or two of one name."""
    taken, names = tuple(tools), set[str]()
    if len(taken) > MAX_TOOLS:
        raise InvalidRequest(f"{param} has {len(taken):,} tools; at most {MAX_TOOLS} can be", param=param)
    for place, tool in enumerate(taken):
        if tool.name in names:
            raise InvalidRequest(f"{param}[{place}] has the name {tool.name!r}, as another has", param=param)
        names.add(tool.name)
    return taken


def choice_of(
    mode: ToolMode,
    name: str | None,
    tools: Sequence[Tool],
    *,
    is_parallel: bool | None = None,
    param: str = "tool_choice",
) -> ToolChoice:
    """What a client wants called: with a `name`, that function. Raises InvalidRequest for what is not among the tools.

    Without tools nothing can be called, and whoever asks for nothing else gets the same as who says nothing.
    """
    if not tools and mode is not ToolMode.REQUIRED:
        return ANY_CALLS
    if not tools:
        raise InvalidRequest(f"{param} wants a call, but there are no tools; send tools", param=param)
    if name is not None and not any(tool.name == name for tool in tools):
        known = ", ".join(tool.name for tool in tools[:8])
        raise InvalidRequest(f"{param} wants {name[:64]!r}, which is not among the tools ({known})", param=param)
    return ToolChoice(mode, name, is_parallel is not False)


def call_of(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    """A call of a history as the messages of a `ChatPrompt` have it. Arguments that are no JSON stay what they are."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


class CallHistory:
    """The calls of a conversation, read from its beginning: a result belongs to one that came before."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def add(self, call_id: str, name: str, param: str) -> None:
        """Raises InvalidRequest, with `param` as the place of the id, for what is no id."""
        if not 0 < len(call_id) <= _MAX_ID_CHARS:
            raise InvalidRequest(f"{param} must have 1 to {_MAX_ID_CHARS} characters", param=param)
        self._names[call_id] = name

    def name_of(self, call_id: str, param: str) -> str:
        """The function whose result this is. Raises InvalidRequest where no call has the id."""
        name = self._names.get(call_id)
        if name is None:
            raise InvalidRequest(f"{param} is {call_id[:64]!r}, which no earlier call has", param=param)
        return name
