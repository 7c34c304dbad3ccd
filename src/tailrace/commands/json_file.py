"""Tools and schemas that a user keeps in files, in the words of the API."""

import json
from pathlib import Path
from typing import Any

from tailrace.errors import SetupError

__all__ = ["read_schema", "read_tools", "tool_choice"]

_MODES = ("auto", "none", "required")


def read_tools(path: Path) -> list[Any]:
    """A list of tools as the API has them, or of bare functions. Raises SetupError."""
    tools = _read(path)
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise SetupError(f'{path}: a list of tools is wanted, such as [{{"name": "get_weather", "parameters": {{}}}}]')
    return [tool if "function" in tool else {"type": "function", "function": tool} for tool in tools]


def read_schema(path: Path) -> Any:
    """A JSON schema. Raises SetupError."""
    schema = _read(path)
    if not isinstance(schema, dict):
        raise SetupError(f'{path}: a JSON schema is wanted, such as {{"type": "object"}}')
    return schema


def tool_choice(word: str) -> Any:
    """auto, none, required, or the name of the function to call, as the API has them."""
    return word if word in _MODES else {"type": "function", "function": {"name": word}}


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise SetupError(f"{path} cannot be read as JSON: {error}") from error
