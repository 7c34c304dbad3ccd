"""Pieces of grammars: what is written in Lark as llguidance reads it."""

import json
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["FREE_TEXT", "lark_of", "lazy_until", "literal", "regex_terminal", "renamed", "schema_rule", "token"]

FREE_TEXT = r"/(.|\n)*/"
"""Anything but special tokens."""

_SPACE = {"whitespace_pattern": r"[ \t\n\r]{1,20}"}  # between the words of JSON: white space without end is no answer
_WORDS = re.compile(
    r"""(?P<other>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|/(?![/*])(?:\\.|[^/\\\n])+/|//[^\n]*|\#[^\n]*)|(?<![\w@-])(?P<name>start)(?![\w-])""",
    re.VERBOSE,
)


def literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def token(token_id: int) -> str:
    return f"<[{token_id}]>"


def lazy_until(end: str) -> str:
    """The body of a rule that is `[lazy]`: anything up to the first `end`, and that."""
    return rf"/(.|\n)*{_escaped(end)}/"


def schema_rule(schema: Mapping[str, Any]) -> str:
    return f"%json {json.dumps({**schema, 'x-guidance': _SPACE})}"


def regex_terminal(expression: str) -> str:
    from llguidance import regex_to_lark  # noqa: PLC0415  (a server that no format is asked of never loads it)

    return f"/{regex_to_lark(expression, 'd')}/"


def lark_of(grammar: str) -> str:
    """A grammar in Lark, or one of llama.cpp's (GBNF), in Lark. Raises ValueError for a GBNF that is none."""
    if "::=" not in grammar:
        return grammar
    from llguidance.gbnf_to_lark import gbnf_to_lark  # noqa: PLC0415  (as above)

    try:
        return str(gbnf_to_lark(grammar))
    except Exception as error:  # it raises bare Exceptions
        raise ValueError(str(error)) from error


def renamed(grammar: str, name: str) -> str:
    """A grammar whose rule `start` is called `name`."""
    return _WORDS.sub(lambda word: name if word["name"] else word[0], grammar)


def _escaped(text: str) -> str:
    return re.sub(r"[][/\\.*+?|(){}^$]", r"\\\g<0>", text)
