"""An engine without model or threads behind a real bridge, and how to lose it: a test says when it does anything."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tailrace.engine.board import Board
from tailrace.engine.bridge import EngineBridge
from tailrace.engine.channel import Channel, wake_all
from tailrace.engine.intake import Intake, IntakeConfig
from tailrace.types import (
    Beginning,
    Explain,
    Explanation,
    FinishReason,
    Invalidate,
    Invalidated,
    MissReason,
    PrefixReport,
    Request,
    TokenEvent,
    TokenLogprob,
)

__all__ = ["MAX_MODEL_TOKENS", "Computed", "ScriptedEngine", "Supervised", "answer_of", "next_token"]

MAX_MODEL_TOKENS = 4096
PREFIX = PrefixReport((), MissReason.NEVER_SEEN)


def next_token(prompt_ids: Sequence[int], output_ids: Sequence[int]) -> int:
    """What the scripted model says behind these tokens."""
    last = output_ids[-1] if output_ids else sum(prompt_ids)
    return (last * 31 + len(output_ids) + 17) % 50_000


def answer_of(request: Request) -> list[int]:
    """What an engine that nothing happens to answers."""
    output: list[int] = []
    while len(output) < request.sampling.max_tokens:
        output.append(next_token(request.prompt_ids, output))
    return output


@dataclass(slots=True)
class Computed:
    """A request, and what the engine knows of it."""

    request: Request
    output_ids: list[int]
    is_paused: bool = False


@dataclass
class ScriptedEngine:
    """One generation of it. Each step gives each of its requests that is not paused one token."""

    channels: Sequence[Channel]
    board: Board
    generation: int
    max_queued: int = 4096
    running: dict[str, Computed] = field(default_factory=dict)
    num_steps: int = 0

    def __post_init__(self) -> None:
        self.intake = Intake(IntakeConfig(self.max_queued, 1 << 30, MAX_MODEL_TOKENS))
        self.bridge = EngineBridge(self.channels, self.board, self.intake, self.generation, on_failure=_never)

    def take_in(self) -> None:
        """Read all commands, and act upon them."""
        while self.bridge.take_in():
            pass
        messages = self.intake.take()
        for request in messages.requests:
            self.running[request.request_id] = Computed(request, list(request.output_ids))
            self.intake.started(request.request_id, 0.0)
        self._end([TokenEvent(request.request_id, None, None, reason) for request, reason in messages.withdrawn])
        known = [(request_id, reason) for request_id, reason in messages.aborts if request_id in self.running]
        self._end([TokenEvent(request_id, None, PREFIX, reason) for request_id, reason in known])
        for request_id, is_paused in messages.pauses:
            if request_id in self.running:
                self.running[request_id].is_paused = is_paused
        for query in messages.queries:
            self.answer(query)

    def answer(self, query: Explain | Invalidate) -> None:
        if isinstance(query, Explain):
            names = (b"n" * 16,) * len(query.prompt_ids)
            self.bridge.reply(Explanation(query.query_id, len(query.prompt_ids), PREFIX, 1, names, b"f"))
        else:
            self.bridge.reply(Invalidated(query.query_id, 1, (), self.generation, 16, 0.0))

    def step(self) -> None:
        """Compute a token for each, and publish them together."""
        self.num_steps += 1
        events = [self._compute(each) for each in self.running.values() if not each.is_paused]
        self._end(events)

    @property
    def numbers(self) -> list[int]:
        """Of the requests that a step computes."""
        return self.bridge.numbers([name for name, each in self.running.items() if not each.is_paused])

    def _compute(self, computed: Computed) -> TokenEvent:
        request, output = computed.request, computed.output_ids
        output.append(next_token(request.prompt_ids, output))
        reason = FinishReason.LENGTH if len(output) >= request.sampling.max_tokens else None
        wants_logprobs = request.sampling.num_logprobs is not None
        logprob = -float(output[-1] % 8) if wants_logprobs else None
        best = (TokenLogprob(output[-1], -0.5),) if wants_logprobs else ()
        event = TokenEvent(request.request_id, output[-1], PREFIX, reason, logprob, best)
        return event._replace(beginning=self._beginning) if len(output) - len(request.output_ids) == 1 else event

    @property
    def _beginning(self) -> Beginning:
        """As if each generation of the engine lived in a second of its own."""
        return Beginning(self.generation + 0.25, self.generation + 0.5, self.generation + 0.75)

    def _end(self, events: Sequence[TokenEvent]) -> None:
        for event in events:
            if event.finish_reason is not None:
                self.running.pop(event.request_id, None)
                self.intake.ended(event.request_id, 0.0)
        self.bridge.publish(events)


@dataclass
class Supervised:
    """A board and channels, with what a supervisor does: it starts engines, and says when they died."""

    channels: Sequence[Channel]
    board: Board = field(default_factory=lambda: Board(max_running=256))
    engine: ScriptedEngine | None = None

    def start(self, max_queued: int = 4096) -> ScriptedEngine:
        """The next generation, which takes requests."""
        generation = self.board.generation + 1
        self.board.begin(generation, 0.0, 1.0)
        self.engine = ScriptedEngine(self.channels, self.board, generation, max_queued)
        self.board.ready(generation)
        wake_all(self.channels)
        return self.engine

    def kill(self, suspects: Sequence[int] = ()) -> None:
        """It is dead, and its memory gone, but for what is shared."""
        self.engine = None
        self.board.lose(suspects)
        wake_all(self.channels)

    def give_up(self, retry_at_s: float) -> None:
        self.engine = None
        self.board.fail(retry_at_s)
        wake_all(self.channels)


def _never() -> None:
    raise AssertionError("the bridge failed")
