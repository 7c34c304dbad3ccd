"""The seam between front ends and the text side: what is asked for, and what comes back. No wire format here."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tailrace.types import FinishReason, SamplingParams

__all__ = [
    "ChatPrompt",
    "ChoiceDelta",
    "Generation",
    "GenerationStream",
    "InfillPrompt",
    "ModelCard",
    "Prompt",
    "Service",
    "TextLogprob",
    "TextPrompt",
    "TokenPrompt",
    "Usage",
]


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """Messages as the client sent them (role, content, ...); `template_args` reach the chat template as variables."""

    messages: Sequence[Mapping[str, Any]]
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    template_args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TextPrompt:
    """A raw prompt. Markup such as `<|im_end|>` in it counts as such unless `allow_control` is off."""

    text: str
    add_special_tokens: bool = True
    allow_control: bool = True


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    token_ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class InfillPrompt:
    """Two texts; wanted is what belongs between them. Markup in them is ordinary text."""

    prefix: str
    suffix: str
    add_special_tokens: bool = True


Prompt = ChatPrompt | TextPrompt | TokenPrompt | InfillPrompt


@dataclass(frozen=True, slots=True)
class Generation:
    """One client request. `sampling.max_tokens` 0 means: as many as the context leaves.

    `seed` is the client's, or None; from it the service makes the `sampling.seed` of each choice.
    """

    request_id: str
    prompt: Prompt
    sampling: SamplingParams
    n: int = 1
    stop: tuple[str, ...] = ()
    include_stop: bool = False
    skip_special_tokens: bool = True
    echo: bool = False
    cache_salt: str = ""
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class TextLogprob:
    """The log probability of one token with the text it stands for; `top` are the best alternatives.

    `offset` is the number of characters of the choice, an echoed prompt not counted, in front of the token's own text.
    Tokens that are parts of one character have the offset of that character.
    """

    token_id: int
    token: str
    raw: bytes
    logprob: float
    top: tuple["TextLogprob", ...] = ()
    offset: int = 0


@dataclass(frozen=True, slots=True)
class ChoiceDelta:
    """New text of choice `index`; the last delta of a choice has `finish_reason` (and may have no text)."""

    index: int
    text: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TextLogprob, ...] = ()
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None  # the stop string or token id that ended it
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class GenerationStream(Protocol):
    """Deltas of all choices, in order of arrival. Close it when the client is gone: that aborts the work."""

    @property
    def prompt_tokens(self) -> int: ...

    @property
    def usage(self) -> Usage:
        """Tokens so far; final once the stream has ended."""
        ...

    def __aiter__(self) -> AsyncIterator[ChoiceDelta]: ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ModelCard:
    """The served model: its public names and bounds. `max_model_tokens` is of one prompt and its answer."""

    name: str
    aliases: tuple[str, ...]
    created_s: int
    max_model_tokens: int
    vocab_size: int
    is_bound_by_kv: bool = False  # max_model_tokens is what the KV memory holds: less than the model could take


class Service(Protocol):
    """The text side as front ends see it. Everything that can be refused is refused before a stream exists."""

    @property
    def model(self) -> ModelCard: ...

    @property
    def is_ready(self) -> bool: ...

    async def start(self, generation: Generation) -> GenerationStream:
        """Tokenise and submit. Raises RequestError or UnavailableError; nothing is left behind then."""
        ...

    def tokenize(self, prompt: Prompt) -> list[int]: ...

    def token_text(self, token_id: int) -> str: ...

    def detokenize(self, token_ids: Sequence[int]) -> str: ...
