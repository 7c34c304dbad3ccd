"""What the tests of all front ends ask of a chat and hear, in words that belong to none of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from tailrace.service.api import ANY_CALLS, ChoiceDelta, Tool, ToolChoice

__all__ = ["ChatAnswer", "ChatChoice", "ChatFrontEnd", "ChatWish", "Section", "answer_of"]

Section = tuple[Literal["reasoning", "text", "call"], str, str]
"""What it is; of a call the name; its text, or a call's arguments."""

USER: Mapping[str, Any] = {"role": "user", "content": "Hi"}


@dataclass(frozen=True)
class ChatWish:
    """`messages` as a `ChatPrompt` has them; `schema` is of the answer."""

    messages: Sequence[Mapping[str, Any]] = (USER,)
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ANY_CALLS
    thinking: bool | None = None
    effort: str | None = None
    schema: Mapping[str, Any] | None = None
    n: int = 1
    max_tokens: int = 64


@dataclass
class ChatChoice:
    """Neighbouring pieces of the same are one section."""

    sections: list[Section] = field(default_factory=list)
    call_ids: list[str] = field(default_factory=list)
    finish: str | None = None
    _call: int | None = None

    def add(self, kind: Literal["reasoning", "text"], text: str) -> None:
        self._call = None
        if self.sections and self.sections[-1][0] == kind:
            text = self.sections.pop()[2] + text
        self.sections.append((kind, "", text))

    def add_call(self, number: int, arguments: str, call_id: str = "", name: str = "") -> None:
        """More of call `number`, which begins it if it is another than before."""
        if number == self._call:
            _, name, before = self.sections.pop()
            arguments = before + arguments
        else:
            self.call_ids.append(call_id)
        self._call = number
        self.sections.append(("call", name, arguments))

    def all(self, kind: str) -> list[Section]:
        return [section for section in self.sections if section[0] == kind]

    @property
    def in_no_order(self) -> tuple[str, str, list[Section]]:
        """Reasoning, text, calls."""
        texts = {kind: "".join(text for _, _, text in self.all(kind)) for kind in ("reasoning", "text")}
        return texts["reasoning"], texts["text"], self.all("call")


@dataclass
class ChatAnswer:
    choices: dict[int, ChatChoice] = field(default_factory=dict)
    usage: tuple[int, int, int] = (0, 0, 0)  # tokens of the prompt, of the answer, and those of its reasoning

    def choice(self, index: int) -> ChatChoice:
        return self.choices.setdefault(index, ChatChoice())

    def add(self, delta: ChoiceDelta) -> None:
        choice = self.choice(delta.index)
        if delta.reasoning:
            choice.add("reasoning", delta.reasoning)
        if delta.text:
            choice.add("text", delta.text)
        for call in delta.calls:
            choice.add_call(call.index, call.arguments, call.call_id, call.name)
        choice.finish = delta.finish_reason or choice.finish


def answer_of(deltas: Sequence[ChoiceDelta]) -> ChatAnswer:
    """What these say."""
    answer = ChatAnswer()
    for delta in deltas:
        answer.add(delta)
    return answer


class ChatFrontEnd(Protocol):
    @property
    def keeps_order(self) -> bool:
        """Whether an answer says what came before what."""
        ...

    @property
    def has_choices(self) -> bool:
        """Whether there may be several."""
        ...

    async def ask(self, wish: ChatWish) -> ChatAnswer:
        """Raises Refused."""
        ...
