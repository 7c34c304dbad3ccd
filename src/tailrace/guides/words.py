"""Pieces of grammars: what is written in Lark as llguidance reads it."""

import json
import re
from collections.abc import Mapping
from typing import Any

__all__ = [
    "FREE_TEXT",
    "fixed_texts",
    "lark_of",
    "lark_texts",
    "lazy_until",
    "literal",
    "regex_terminal",
    "renamed",
    "schema_rule",
    "token",
]

FREE_TEXT = r"/(.|\n)*/"
"""Anything but special tokens."""

_SPACE = {"whitespace_pattern": r"[ \t\n\r]{1,20}"}  # between the words of JSON: white space without end is no answer
_WORDS = re.compile(
    r"""(?P<other>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|/(?![/*])(?:\\.|[^/\\\n])+/|//[^\n]*|\#[^\n]*)|(?<![\w@-])(?P<name>start)(?![\w-])""",
    re.VERBOSE,
)

_EXPRESSION = re.compile(  # bounded, as what it is used on, so that nothing hostile takes long
    r"""\[\^(?:\\.|[^\]\\]){1,40}\]|\[(?P<member>[^\\\]])(?:\\.|[^\]\\]){0,40}\]"""
    r"""|(?P<loose>[*?]|\{(?P<least>\d{0,2})[^}]{0,20}\})|\\(?P<escaped>[^\w\s])|\\[pPx]\{[^}]{0,40}\}|\\."""
    r"""|\(\?[^:)]{0,40}[:)]|[.^$|()+]|(?P<plain>.)""",
    re.DOTALL,
)
_MAX_EXPRESSION_CHARACTERS = 1024
_MAX_FIXED_TEXTS = 16
_MAX_FIXED_CHARACTERS = 64


def fixed_texts(expression: str) -> list[str]:
    """What of a regular expression has to be written as it stands, roughly: enough to look for a way through it."""
    texts = [""]
    for found in _EXPRESSION.finditer(expression[:_MAX_EXPRESSION_CHARACTERS]):
        if character := found["plain"] or found["escaped"]:
            texts[-1] += character
            continue
        if found["loose"]:
            texts[-1] = texts[-1][:-1] + texts[-1][-1:] * int(found["least"] or 0)
        texts += [found["member"] or "", ""]
    whole = dict.fromkeys(text for text in texts if 0 < len(text) <= _MAX_FIXED_CHARACTERS)
    return list(whole)[:_MAX_FIXED_TEXTS]


def lark_texts(grammar: str) -> list[str]:
    """The same of the regular expressions of a grammar in Lark."""
    others = [word["other"] or "" for word in _WORDS.finditer(grammar)]
    expressions = [other[1:-1] for other in others if re.match("/[^/]", other)][:_MAX_FIXED_TEXTS]
    texts = [text for expression in expressions for text in fixed_texts(expression)]
    return list(dict.fromkeys(texts))[:_MAX_FIXED_TEXTS]


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
