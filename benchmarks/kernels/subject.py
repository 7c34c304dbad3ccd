"""What is measured: a program with weights, and the tokens that go through it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tailrace.ops.packed import PackedTensor
from tailrace.ops.program import Program

__all__ = ["Subject"]


@dataclass(frozen=True, slots=True)
class Subject:
    """`copies`: how often each op of interest stands in the program; a figure is that of one.

    `is_whole`: a model, whose step as a whole is worth a line; else only its linears are, named with `prefix`.
    """

    program: Program
    weights: Mapping[str, PackedTensor]
    token_ids: Sequence[int]
    is_whole: bool = True
    copies: int = 1
    prefix: str = ""
