"""What a client wants an answer to look like, in the client's own words."""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["OutputFormat", "OutputKind"]


class OutputKind(StrEnum):
    JSON_OBJECT = "json_object"
    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    CHOICE = "choice"
    GRAMMAR = "grammar"


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """`text` is a schema as JSON, a regular expression or a grammar; `choices` are the texts of CHOICE.

    `param` is what the client calls it, for errors.
    """

    kind: OutputKind
    text: str = ""
    choices: tuple[str, ...] = ()
    param: str = "response_format"
