"""The parameter that says how wide each class of weights is kept, of every command that loads a model."""

from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter, Token

from tailrace.errors import SetupError
from tailrace.weights.precision import Precision

__all__ = ["PrecisionWords"]


def _convert(_type: Any, tokens: Sequence[Token]) -> Precision:
    try:
        return Precision.parse(tokens[0].value)
    except SetupError as error:
        raise ValueError(str(error)) from error


PrecisionWords = Annotated[Precision, Parameter(converter=_convert, n_tokens=1, accepts_keys=False)]
"""A parameter that takes words such as int4,head=int8,kv=int8."""
