"""What an answer is made of while it arrives, whoever sends it."""

from collections.abc import Callable
from typing import NamedTuple

__all__ = ["CallPiece", "Piece", "PieceSink"]


class CallPiece(NamedTuple):
    """More of call `number` of an answer; its id and the function's name come once."""

    number: int = 0
    call_id: str = ""
    name: str = ""
    arguments: str = ""


class Piece(NamedTuple):
    """More of an answer."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[CallPiece, ...] = ()


PieceSink = Callable[[Piece], None]
