"""Amounts of memory as people write and read them."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from cyclopts import Parameter, Token

__all__ = ["ByteCount", "ByteCountOrAuto", "ByteCountOrNone", "format_bytes", "format_rate", "parse_bytes"]

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_bytes(text: str) -> int:
    """Read `512`, `256MiB`, `1.5G` or `2GB`: powers of 1024, unless the unit ends in a plain B. Raises ValueError."""
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not an amount of memory: write it like 512MiB or 2GiB")
    number, unit, binary = match.groups()
    is_decimal = bool(unit) and not binary and text.strip()[-1] in "bB"
    amount = int(float(number) * (1000 if is_decimal else 1024) ** _POWERS[unit.lower()])
    if amount < 1:
        raise ValueError(f"{text!r} is less than one byte")
    return amount


def format_bytes(amount: int) -> str:
    """`98.4 MiB` and the like."""
    size = float(amount)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{amount} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def format_rate(amount: float, unit: str) -> str:
    """`98.4 GB/s` and the like: powers of 1000, as rates are given."""
    for prefix in ("", "k", "M", "G"):
        if amount < 999.5:
            return f"{amount:.3g} {prefix}{unit}"
        amount /= 1000
    return f"{amount:.3g} T{unit}"


def _convert(_type: Any, tokens: Sequence[Token]) -> int:
    return parse_bytes(tokens[0].value)


ByteCount = Annotated[int, Parameter(converter=_convert)]
"""A parameter that takes an amount of memory, such as 512MiB."""


def _convert_or_none(_type: Any, tokens: Sequence[Token]) -> int:
    text = tokens[0].value.strip()
    return 0 if text == "0" else parse_bytes(text)


ByteCountOrNone = Annotated[int, Parameter(converter=_convert_or_none)]
"""As `ByteCount`, or 0."""


def _convert_or_auto(kind: Any, tokens: Sequence[Token]) -> int | str:
    return "auto" if tokens[0].value.strip() == "auto" else _convert_or_none(kind, tokens)


ByteCountOrAuto = Annotated[int | Literal["auto"], Parameter(converter=_convert_or_auto)]
"""As `ByteCount`, or 0, or the word auto."""
