"""The option --lazy-experts, with a bound or without one."""

from typing import Annotated, Literal

from cyclopts import Parameter

from tailrace.commands.quantity import ByteCount
from tailrace.config import LazyExperts

__all__ = ["LazyExpertsOption", "lazy_experts"]

LazyExpertsOption = Annotated[list[ByteCount] | None, Parameter(consume_multiple=(0, 1))]
"""`--lazy-experts SIZE`, or `--lazy-experts` alone."""


def lazy_experts(given: list[int] | None) -> LazyExperts:
    """What the option says."""
    if given is None:
        return None
    bound: int | Literal["auto"] = given[0] if given else "auto"
    return bound
