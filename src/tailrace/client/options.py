"""What is asked of a model, and what it answers, in the words of those who use Tailrace from Python."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from tailrace.service.api import Usage
from tailrace.types import FinishReason

if TYPE_CHECKING:
    from typing_extensions import TypeIs  # the standard library has it from Python 3.13 on

__all__ = ["Call", "Completion", "Options", "PromptLike", "is_prompt"]

PromptLike = str | Sequence[Mapping[str, Any]]  # text to continue, or chat messages


class Options(TypedDict, total=False):
    """`stop`, and the fields of `SamplingParams`. Without `max_tokens` an answer may fill the context.

    With `suffix` a code model writes what belongs between a text and that. `service_class` is the name of one of the
    engine's classes; tenants share a class fairly.

    With messages: `tools` that the model may call, and `tool_choice` among them; whether to think, and how much
    (`reasoning_effort`: none, minimal, low, medium, high, xhigh, max). `response_format` and `structured_outputs` say
    what the answer looks like. All of these have the shapes of OpenAI's API, and the last that of vLLM's.
    """

    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    seed: int
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    logit_bias: Mapping[int, float]
    min_tokens: int
    ignore_eos: bool
    stop: str | Sequence[str]
    stop_token_ids: Sequence[int]
    suffix: str
    service_class: str
    tenant: str
    tools: Sequence[Mapping[str, Any]]
    tool_choice: str | Mapping[str, Any]
    parallel_tool_calls: bool
    thinking: bool
    reasoning_effort: str
    response_format: Mapping[str, Any]
    structured_outputs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A function that the model wants called; `arguments` are JSON, if the model wrote them right."""

    name: str
    arguments: str
    call_id: str


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished answer."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    usage: Usage
    reasoning: str = ""
    calls: tuple[Call, ...] = ()

    @property
    def message(self) -> dict[str, Any]:
        """It as a chat message, to go on from: with results of its calls, or with a new question."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = [_wire_call(call) for call in self.calls]
        return message


def is_prompt(prompts: PromptLike | Sequence[PromptLike]) -> "TypeIs[PromptLike]":
    """Whether this is one prompt: a text, or the messages of one chat."""
    return isinstance(prompts, str) or (len(prompts) > 0 and isinstance(prompts[0], Mapping))


def _wire_call(call: Call) -> dict[str, Any]:
    return {
        "id": call.call_id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }
