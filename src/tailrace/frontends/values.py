"""Values that clients send in more than one format, with their bounds."""

from typing import Annotated

from msgspec import Meta

__all__ = ["Salt", "Scalar", "TemplateArgs", "TokenId"]

TokenId = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Salt = Annotated[str, Meta(min_length=1, max_length=512)]

# Template variables nest only so far that no template can recurse over them without end.
Scalar = str | int | float | bool | None
TemplateArgs = Annotated[dict[str, Scalar | list[Scalar] | dict[str, Scalar]], Meta(max_length=64)]
