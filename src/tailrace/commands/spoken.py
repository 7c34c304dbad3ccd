"""An answer while it is put together: its text, what was thought before it, and the calls it makes."""

from dataclasses import dataclass, field
from typing import Any

from tailrace.bench.pieces import CallPiece, Piece

__all__ = ["Call", "Spoken"]


@dataclass(slots=True)
class Call:
    call_id: str = ""
    name: str = ""
    arguments: str = ""

    def add(self, piece: CallPiece) -> None:
        self.call_id = self.call_id or piece.call_id
        self.name = self.name or piece.name
        self.arguments += piece.arguments


@dataclass(slots=True)
class Spoken:
    text: str = ""
    reasoning: str = ""
    _calls: dict[int, Call] = field(default_factory=dict)

    @property
    def calls(self) -> list[Call]:
        return list(self._calls.values())

    def add(self, piece: Piece) -> None:
        self.text += piece.text
        self.reasoning += piece.reasoning
        for call in piece.calls:
            self._calls.setdefault(call.number, Call()).add(call)

    def message(self) -> dict[str, Any]:
        """It as a message of a history."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = [_wire_call(call) for call in self.calls]
        return message


def _wire_call(call: Call) -> dict[str, Any]:
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
