"""Directories as they are given on the command line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter, Token

__all__ = ["Directory"]


def _convert(_type: Any, tokens: Sequence[Token]) -> Path:
    if not tokens[0].value.strip():
        raise ValueError("an empty name is no directory: write . for the present one")
    return Path(tokens[0].value)


Directory = Annotated[Path, Parameter(converter=_convert)]
"""A parameter that takes a directory; an empty name, as of a variable that is not set, is not the present one."""
