"""Items of a conversation as messages: what an answer said is one of them, in however many items it comes back."""

from dataclasses import dataclass, field
from typing import Any

from tailrace.frontends.tools import CallHistory, call_of

__all__ = ["Conversation"]


@dataclass(slots=True)
class _Turn:
    """Joined at the end alone, so that many items take no longer than their text does."""

    role: str
    texts: list[str] = field(default_factory=list)
    reasoning: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    call_id: str = ""

    def message(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": self.role, "content": "\n".join(self.texts)}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = self.calls
        if self.call_id:
            message["tool_call_id"] = self.call_id
        return message


class Conversation:
    """Reasoning begins an answer; until something else comes, the messages and calls behind it are of that answer."""

    def __init__(self) -> None:
        self._turns: list[_Turn] = []
        self._calls = CallHistory()

    @property
    def messages(self) -> list[dict[str, Any]]:
        """In the shape that `ChatPrompt` has."""
        return [turn.message() for turn in self._turns]

    def say(self, role: str, text: str) -> None:
        last = self._answer
        if role != "assistant" or last is None or not (last.calls or (last.reasoning and not last.texts)):
            self._turns.append(_Turn(role, [text]))
        elif text:
            last.texts.append(text)

    def think(self, text: str) -> None:
        """Without a text there is nothing that a model could go on from."""
        if text:
            self._turns.append(_Turn("assistant", reasoning=text))

    def call(self, call_id: str, name: str, arguments: str, param: str) -> None:
        """Raises InvalidRequest, with `param` as the place of the id."""
        self._calls.add(call_id, name, param)
        answer = self._answer
        if answer is None:
            answer = _Turn("assistant")
            self._turns.append(answer)
        answer.calls.append(call_of(call_id, name, arguments))

    def answer(self, call_id: str, result: str, param: str) -> None:
        """Raises InvalidRequest for the result of a call that is not there."""
        self._calls.name_of(call_id, param)
        self._turns.append(_Turn("tool", [result], call_id=call_id))

    @property
    def _answer(self) -> _Turn | None:
        """The last turn, if it is the assistant's."""
        last = self._turns[-1] if self._turns else None
        return last if last is not None and last.role == "assistant" else None
