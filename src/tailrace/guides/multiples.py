"""How large the multiples are that a grammar asks for: the compiler has a state for each remainder, and no bound."""

import math
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from tailrace.guides.nesting import members

__all__ = ["MAX_MULTIPLE", "grammar_multiple", "schema_multiple"]

MAX_MULTIPLE = 100_000  # some tenths of a second

_NUMBER = re.compile(r'multipleOf"\s*:\s*([-+.\deE]{1,64})')
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")


def schema_multiple(schema: Mapping[str, Any]) -> int:
    """What all `multipleOf` together might come to, in units of the last digit after a point."""
    return _common(value for key, value in members(schema) if key == "multipleOf")


def grammar_multiple(grammar: str) -> int:
    """The same of the schemas in a grammar in Lark."""
    plain = _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), grammar)
    return _common(_float(number) for number in _NUMBER.findall(plain))


def _float(number: str) -> float:
    try:
        return float(number)
    except ValueError:  # no JSON either
        return 0.0


def _common(values: Iterable[Any]) -> int:
    """Looks no further than to a multiple that is too large."""
    numbers = {
        abs(Decimal(str(value)).normalize()) for value in values if type(value) in (int, float) and math.isfinite(value)
    }
    numbers.discard(Decimal(0))
    places = max((-int(number.as_tuple().exponent) for number in numbers), default=0)
    common = 1
    for number in numbers:
        common = math.lcm(common, int(number.scaleb(max(places, 0))))
        if common > MAX_MULTIPLE:
            break
    return common
