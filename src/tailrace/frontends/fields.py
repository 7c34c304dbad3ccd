"""What happens to the fields that clients send but this server has no use for.

A field is in exactly one place: obeyed (the schema of a body), accepted because ignoring it changes nothing that was
asked for, or refused by name. Whatever is in none of them is unknown, and refused as such.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["FieldRules", "Refusal"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a field is refused; a value in `neutral` asks for nothing and passes."""

    reason: str
    neutral: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class FieldRules:
    """`accepted`: field -> why ignoring it is right; `refused`: known to some client, not to this server."""

    accepted: Mapping[str, str]
    refused: Mapping[str, Refusal]
