"""Items of a conversation as messages: what an answer said is one of them, in however many items it comes back."""

from typing import Any

from tailrace.frontends.tools import CallHistory, call_of

__all__ = ["Conversation"]


class Conversation:
    """`messages` so far, in the shape that `ChatPrompt` has. Reasoning begins an answer, calls end it."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self._calls = CallHistory()

    def say(self, role: str, text: str) -> None:
        last = self._answer
        if role != "assistant" or last is None or not (_is_thought(last) or "tool_calls" in last):
            self.messages.append({"role": role, "content": text})
        else:
            last["content"] = f"{last['content']}\n{text}" if last["content"] else text

    def think(self, text: str) -> None:
        """Without a text there is nothing that a model could go on from."""
        if text:
            self.messages.append({"role": "assistant", "content": "", "reasoning_content": text})

    def call(self, call_id: str, name: str, arguments: str, param: str) -> None:
        """Raises InvalidRequest, with `param` as the place of the id."""
        self._calls.add(call_id, name, param)
        answer = self._answer
        if answer is None:
            answer = {"role": "assistant", "content": ""}
            self.messages.append(answer)
        answer.setdefault("tool_calls", []).append(call_of(call_id, name, arguments))

    def answer(self, call_id: str, result: str, param: str) -> None:
        """Raises InvalidRequest for the result of a call that is not there."""
        self._calls.name_of(call_id, param)
        self.messages.append({"role": "tool", "content": result, "tool_call_id": call_id})

    @property
    def _answer(self) -> dict[str, Any] | None:
        """The last message, if it is the assistant's."""
        last = self.messages[-1] if self.messages else None
        return last if last is not None and last["role"] == "assistant" else None


def _is_thought(message: dict[str, Any]) -> bool:
    """Whether nothing but reasoning has come of it."""
    return "reasoning_content" in message and not message["content"]
