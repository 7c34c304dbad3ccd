"""Functions that a model may call: what a client offers, and the calls in an answer while they are written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

__all__ = ["ANY_CALLS", "CallDelta", "Tool", "ToolChoice", "ToolMode"]


@dataclass(frozen=True, slots=True)
class Tool:
    """A function. `parameters` is the JSON schema of its arguments; `strict`: they never break it."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = False


class ToolMode(StrEnum):
    AUTO = "auto"  # the model decides
    NONE = "none"
    REQUIRED = "required"  # at least one call


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Whether to call, and what: with a `name`, REQUIRED wants that function. Unless `is_parallel`, one call."""

    mode: ToolMode = ToolMode.AUTO
    name: str | None = None
    is_parallel: bool = True


ANY_CALLS = ToolChoice()


@dataclass(frozen=True, slots=True)
class CallDelta:
    """New characters of the arguments of call `index`; its first delta has its id and the function's name."""

    index: int
    arguments: str = ""
    call_id: str = ""
    name: str = ""
