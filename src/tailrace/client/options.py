"""What is asked of a model, and what it answers, in the words of those who use Tailrace from Python."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from tailrace.service.api import Usage
from tailrace.types import FinishReason

if TYPE_CHECKING:
    from typing_extensions import TypeIs  # the standard library has it from Python 3.13 on

__all__ = ["Completion", "Options", "PromptLike", "is_prompt"]

PromptLike = str | Sequence[Mapping[str, Any]]  # text to continue, or chat messages


class Options(TypedDict, total=False):
    """`stop`, and the fields of `SamplingParams`. Without `max_tokens` an answer may fill the context.

    With `suffix` a code model writes what belongs between a text and that. `service_class` is the name of one of the
    engine's classes; tenants share a class fairly.
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


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished answer."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    usage: Usage


def is_prompt(prompts: PromptLike | Sequence[PromptLike]) -> "TypeIs[PromptLike]":
    """Whether this is one prompt: a text, or the messages of one chat."""
    return isinstance(prompts, str) or (len(prompts) > 0 and isinstance(prompts[0], Mapping))
