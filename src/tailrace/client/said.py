"""What an answer has said besides its text, as it grows; and all of an answer once it has ended."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tailrace.client.options import Call, Completion
from tailrace.errors import EngineError
from tailrace.service.api import ChoiceDelta, Usage

__all__ = ["Said", "completion_of"]


class CallPiece(Protocol):
    """A `CallDelta`, or what stands for one in shared memory."""

    @property
    def index(self) -> int: ...
    @property
    def arguments(self) -> str: ...
    @property
    def call_id(self) -> str: ...
    @property
    def name(self) -> str: ...


@dataclass(slots=True)
class _GrowingCall:
    name: str
    call_id: str
    arguments: list[str] = field(default_factory=list)


class Said:
    """Of one choice. Asked for it, it says what there is so far."""

    def __init__(self) -> None:
        self._reasoning: list[str] = []
        self._calls: dict[int, _GrowingCall] = {}

    def add(self, reasoning: str, calls: Sequence[CallPiece]) -> None:
        self._reasoning.append(reasoning)
        for piece in calls:
            call = self._calls.setdefault(piece.index, _GrowingCall(piece.name, piece.call_id))
            call.arguments.append(piece.arguments)

    @property
    def reasoning(self) -> str:
        return "".join(self._reasoning)

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple([Call(each.name, "".join(each.arguments), each.call_id) for each in self._calls.values()])


def completion_of(deltas: Sequence[ChoiceDelta], usage: Usage) -> Completion:
    """All deltas of a choice as one. Raises EngineError if it is not whole."""
    last = deltas[-1] if deltas else None
    if last is None or last.error is not None or last.finish_reason is None:
        raise EngineError((last and last.error) or "the engine ended the answer without a reason")
    said = Said()
    for delta in deltas:
        said.add(delta.reasoning, delta.calls)
    return Completion(
        text="".join(delta.text for delta in deltas),
        token_ids=tuple(token_id for delta in deltas for token_id in delta.token_ids),
        finish_reason=last.finish_reason,
        usage=usage,
        reasoning=said.reasoning,
        calls=said.calls,
    )
