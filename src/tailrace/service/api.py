"""The seam between front ends and the text side: what is asked for, and what comes back. No wire format here."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tailrace.classes import ServiceClasses
from tailrace.service.answer_form import ALL_TEXT, AnswerForm
from tailrace.service.milestones import OBSERVE_ONE_IN, Milestones
from tailrace.service.output_format import OutputFormat, OutputKind
from tailrace.service.tools import ANY_CALLS, CallDelta, Tool, ToolChoice, ToolMode
from tailrace.types import (
    BlockTarget,
    Explanation,
    FinishReason,
    Guide,
    Invalidated,
    Level,
    MissReason,
    ModelTarget,
    PrefixReport,
    SamplingParams,
    TenantTarget,
    TokenEvent,
)

__all__ = [
    "ALL_TEXT",
    "ANY_CALLS",
    "OBSERVE_ONE_IN",
    "AnswerForm",
    "CallDelta",
    "ChatPrompt",
    "ChoiceDelta",
    "Generation",
    "GenerationStream",
    "InfillPrompt",
    "Journal",
    "JournaledService",
    "ListedPrompt",
    "Milestones",
    "ModelCard",
    "Output",
    "OutputFormat",
    "OutputKind",
    "Prompt",
    "Service",
    "SettledGeneration",
    "Standing",
    "TextLogprob",
    "TextPrompt",
    "TokenPrompt",
    "Tool",
    "ToolChoice",
    "ToolMode",
    "Usage",
]


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """Messages in the shape that chat templates know; `template_args` reach the chat template as variables.

    A message has `role` (system, user, assistant, tool) and `content`; the assistant's perhaps `reasoning_content` and
    `tool_calls`, each `{"id", "type": "function", "function": {"name", "arguments"}}` with the arguments as a string of
    JSON; a tool's `tool_call_id`. `thinking` and `effort` are None where the client leaves it to the model's format.
    `param` is what the client calls them, for errors.
    """

    messages: Sequence[Mapping[str, Any]]
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    template_args: Mapping[str, Any] = field(default_factory=dict)
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ANY_CALLS
    thinking: bool | None = None
    effort: str | None = None  # how much to think: minimal, low, medium, high, xhigh, max
    param: str = field(default="messages", compare=False)

    @property
    def shown_tools(self) -> tuple[Tool, ...]:
        """What the model is told of. One that must not call is told of nothing that it could try to call."""
        return () if self.tool_choice.mode is ToolMode.NONE else self.tools


@dataclass(frozen=True, slots=True)
class TextPrompt:
    """A raw prompt. Markup such as `<|im_end|>` in it counts as such unless `allow_control` is off."""

    text: str
    add_special_tokens: bool = True
    allow_control: bool = True


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """`param` is what the client calls them, for errors."""

    token_ids: Sequence[int]
    param: str = field(default="prompt", compare=False)


@dataclass(frozen=True, slots=True)
class InfillPrompt:
    """Two texts; wanted is what belongs between them. Markup in them is ordinary text."""

    prefix: str
    suffix: str
    add_special_tokens: bool = True


Prompt = ChatPrompt | TextPrompt | TokenPrompt | InfillPrompt


@dataclass(frozen=True, slots=True)
class ListedPrompt:
    """A prompt that somebody expects, to be computed before anybody asks. `place` is where it is listed."""

    prompt: Prompt
    cache_salt: str = ""
    num_uses: float = 1.0  # expected, where that is known
    model: str | None = None  # whose token ids they are; None: of the one that is served
    place: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a request stands among others: its class (empty: the default one), whose it is, and targets of its own.

    None means: that of its class.
    """

    class_name: str = ""
    tenant: str = ""  # who shares a class fairly with whom
    ttft_s: float | None = None
    itl_s: float | None = None
    queue_ttl_s: float | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """One client request. `sampling.max_tokens` 0 means: as many as the context leaves.

    `seed` is the client's, or None; from it the service makes the `sampling.seed` of each choice. With
    `ends_with_context`, what `max_tokens` asks for beyond the context is not refused: the answer ends there. Unless
    `is_text_wanted`, deltas have token ids alone, each as soon as it is there. Whoever gives `milestones` can read them
    however it ends.
    """

    request_id: str
    prompt: Prompt
    sampling: SamplingParams
    n: int = 1
    stop: tuple[str, ...] = ()
    include_stop: bool = False
    skip_special_tokens: bool = True
    echo: bool = False
    is_text_wanted: bool = True
    cache_salt: str = ""
    seed: int | None = None
    standing: Standing = Standing()
    ends_with_context: bool = False
    output_format: OutputFormat | None = None
    trace: str = ""  # the W3C traceparent of the span that answers it; empty: nobody traces it
    milestones: Milestones | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TextLogprob:
    """The log probability of one token with the text it stands for; `top` are the best alternatives.

    `offset` is the number of characters in front of the token's own text of all that the choice has written: reasoning
    and markup count, an echoed prompt does not. Tokens that are parts of one character have the offset of that
    character. Tokens of the reasoning are those that begin in front of its end; its tags are part of it.
    """

    token_id: int
    token: str
    raw: bytes
    logprob: float
    top: tuple["TextLogprob", ...] = ()
    offset: int = 0
    is_reasoning: bool = False


@dataclass(slots=True)
class ChoiceDelta:
    """New text of choice `index`; the last delta of a choice has `finish_reason` (and may have no text).

    Its reasoning comes before its text, and its text before its calls: what comes in another order is several deltas.
    Never changed, but not frozen: there is one for nearly each token, and a frozen one takes five times as long.
    """

    index: int
    text: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TextLogprob, ...] = ()
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None  # the stop string or token id that ended it
    error: str | None = None
    reasoning: str = ""
    calls: tuple[CallDelta, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """`found` says from which level the cached tokens came, `miss_reason` why there were no more of them.

    A client is not told that somebody else has sent the same prompt.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    found: tuple[tuple[Level, int], ...] = ()
    miss_reason: MissReason | None = None
    reasoning_tokens: int = 0  # of the completion tokens, those in front of the answer itself

    @classmethod
    def of_prompt(cls, prompt_tokens: int, completion_tokens: int, prefix: PrefixReport | None) -> "Usage":
        """`prefix` is None as long as nothing was computed."""
        if prefix is None:
            return cls(prompt_tokens, completion_tokens, 0)
        reason = MissReason.NEVER_SEEN if prefix.reason is MissReason.OTHER_SALT else prefix.reason
        return cls(prompt_tokens, completion_tokens, prefix.num_cached_tokens, prefix.num_tokens, reason)

    @classmethod
    def of_all(cls, usages: Sequence["Usage"]) -> "Usage":
        """Of several prompts together. The reason is that of the most tokens that were not found."""
        found, missed = Counter[Level](), Counter[MissReason]()
        for usage in usages:
            found.update(dict(usage.found))
            if usage.miss_reason is not None:
                missed[usage.miss_reason] += usage.prompt_tokens - usage.cached_tokens
        return cls(
            sum(usage.prompt_tokens for usage in usages),
            sum(usage.completion_tokens for usage in usages),
            sum(usage.cached_tokens for usage in usages),
            tuple((level, found[level]) for level in Level if found[level]),
            max(missed, key=lambda reason: missed[reason], default=None),
            sum(usage.reasoning_tokens for usage in usages),
        )

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class GenerationStream(Protocol):
    """Deltas of all choices, in order of arrival. One reader. Close it when the client is gone: that aborts the work.

    Reading may raise: what ends the answer early, after all deltas that came before it.
    """

    @property
    def prompt_tokens(self) -> int: ...

    @property
    def usage(self) -> Usage:
        """Tokens so far; final once the stream has ended."""
        ...

    async def take(self) -> Sequence[ChoiceDelta]:
        """All deltas that are there, at least one; none once the stream has ended."""
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
    eos_ids: tuple[int, ...] = ()  # tokens that end an answer


class Service(Protocol):
    """The text side as front ends see it. Everything that can be refused is refused before a stream exists."""

    @property
    def model(self) -> ModelCard: ...

    @property
    def is_ready(self) -> bool: ...

    @property
    def classes(self) -> ServiceClasses:
        """With the targets that hold on this machine, once that is known."""
        ...

    async def start(self, generation: Generation) -> GenerationStream:
        """Tokenise and submit. Raises RequestError or UnavailableError; nothing is left behind then."""
        ...

    async def explain(self, prompt: Prompt, cache_salt: str) -> Explanation:
        """What the cache would give this prompt now. Raises RequestError or UnavailableError."""
        ...

    async def invalidate(self, target: BlockTarget | TenantTarget | ModelTarget) -> Invalidated:
        """Forget what is cached of it. Raises Overloaded or UnavailableError."""
        ...

    async def invalidate_prompt(self, prompt: Prompt, cache_salt: str) -> Invalidated:
        """Forget a prompt, to whole blocks, and all that continues it. Raises RequestError or UnavailableError."""
        ...

    def tokenize(self, prompt: Prompt) -> list[int]: ...

    def token_text(self, token_id: int) -> str: ...

    def detokenize(self, token_ids: Sequence[int]) -> str: ...


@dataclass(frozen=True, slots=True)
class SettledGeneration:
    """A generation as it was submitted. Nothing is left open in it: whoever computes it gets the same answer.

    `sampling` has what the prompt's own form adds to the client's `stop_token_ids`; of `seed` each choice has its own.
    `epoch` counts how often it was taken up again: each time its requests are others, and its answer the same.
    """

    request_id: str
    prompt_ids: Sequence[int]
    sampling: SamplingParams
    seed: int
    n: int
    is_text_wanted: bool
    stop: tuple[str, ...]
    include_stop: bool
    skip_special_tokens: bool
    stop_token_ids: tuple[int, ...]
    echoed: str
    cache_salt: str
    standing: Standing
    form: AnswerForm = ALL_TEXT
    guide: Guide | None = None
    epoch: int = 0
    trace: str = ""

    @property
    def attempt_id(self) -> str:
        """What the ids of its requests to the engine begin with, this time."""
        return f"{self.request_id}~{self.epoch}" if self.epoch else self.request_id


@dataclass(frozen=True, slots=True)
class Output:
    """What a choice has said: its tokens, of which the last may have ended it, and what the cache gave its prompt."""

    token_ids: Sequence[int] = ()
    finish_reason: FinishReason | None = None
    prefix: PrefixReport | None = None
    ends_with_token: bool = False  # the last token ended it, by its own meaning or as the last that was allowed

    def cut(self, num_tokens: int) -> "Output":
        """The first tokens of it. Its end is lost with any other."""
        if num_tokens >= len(self.token_ids):
            return self
        return Output(self.token_ids[:num_tokens], prefix=self.prefix)

    def events(self, request_id: str) -> list[TokenEvent]:
        """What the engine said, or would have said, until here."""
        events = [TokenEvent(request_id, token_id, self.prefix) for token_id in self.token_ids]
        if self.finish_reason is not None:
            last = events.pop().token_id if self.ends_with_token else None
            events.append(TokenEvent(request_id, last, self.prefix, self.finish_reason))
        return events


class Journal(Protocol):
    """Keeps what is needed to take an answer up again. What it is told is not yet with the client."""

    def begin(self, settled: SettledGeneration, outputs: Sequence[Output]) -> None:
        """The request was submitted, with what its choices had said before."""
        ...

    def add(self, index: int, events: Sequence[TokenEvent]) -> None:
        """Choice `index` says this. Raises UnavailableError when somebody else has taken the answer up."""
        ...


class JournaledService(Service, Protocol):
    """A service whose answers can be taken up again."""

    async def start_journaled(self, generation: Generation, journal: Journal) -> GenerationStream:
        """As `start`; the journal learns of all that the stream is given."""
        ...

    async def resume(
        self,
        settled: SettledGeneration,
        outputs: Sequence[Output],
        journal: Journal,
        milestones: Milestones | None = None,
    ) -> GenerationStream:
        """The whole answer, of which the outputs need no computing. Raises RequestError or UnavailableError."""
        ...
