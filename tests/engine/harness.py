"""An engine without thread or sockets: the real scheduler, runner and back end, stepped by the test."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tailrace.app import LoadedModel, build_engine, load_model
from tailrace.classes import STANDARD
from tailrace.config import EngineConfig
from tailrace.engine.engine import Engine
from tailrace.engine.intake import Intake, IntakeConfig
from tailrace.levels.api import BlockLevel
from tailrace.records import Record, RequestRecord, StepRecord
from tailrace.runtime.kv_store import KvStore
from tailrace.types import Request, TokenEvent
from tailrace.weights.checkpoint import Checkpoint

__all__ = ["Harness", "MakeHarness", "make_harness"]

MAX_MODEL_TOKENS = 1024
_POLL_S = 0.05
CONFIG = EngineConfig(
    backend="cpu",
    kv_memory_bytes=64 << 20,
    budget_tokens=256,
    max_running=16,
    max_queued=64,
    classes=STANDARD.patient,  # nobody is refused because the machine is busy with something else
)


@dataclass
class Harness:
    """Runs requests to their end and keeps everything the engine said."""

    engine: Engine
    intake: Intake
    events: list[TokenEvent] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    store: KvStore | None = None

    def run(self, requests: Sequence[Request]) -> dict[str, list[int]]:
        """Submit together, step until idle; the tokens of each request."""
        first = len(self.events)
        for request in requests:
            self.intake.submit(request)
        open_ids = {request.request_id for request in requests}
        while open_ids:
            num_seen = len(self.events)
            if not self.step():
                self.intake.wait(_POLL_S)  # for levels below: they wake the loop, or their time runs out
            open_ids -= {event.request_id for event in self.events[num_seen:] if event.finish_reason is not None}
        while self.step():
            pass
        answers: dict[str, list[int]] = {request.request_id: [] for request in requests}
        for event in self.events[first:]:
            if event.token_id is not None:
                answers[event.request_id].append(event.token_id)
        return answers

    def step(self) -> bool:
        self.engine.drain_intake()
        return self.engine.step()

    def request(self, request_id: str) -> RequestRecord:
        """What is recorded of a request that has ended."""
        (found,) = [each for each in self.records if isinstance(each, RequestRecord) and each.request_id == request_id]
        return found

    @property
    def steps(self) -> list[StepRecord]:
        return [record for record in self.records if isinstance(record, StepRecord)]


MakeHarness = Callable[..., Harness]


def make_harness(
    checkpoint: Checkpoint, levels: Callable[[LoadedModel], Sequence[BlockLevel]] | None = None, **changes: object
) -> Harness:
    """A harness on a model, maybe with `levels` below it; `changes` are fields of EngineConfig."""
    longest = min(MAX_MODEL_TOKENS, checkpoint.config.max_model_tokens)
    fields = {"max_model_tokens": longest, **changes}
    config = replace(CONFIG, **fields)  # type: ignore[arg-type]  # names and types are the caller's
    model = load_model(checkpoint, config)
    intake = Intake(IntakeConfig(config.max_queued, config.max_queued_tokens, model.limits.max_model_tokens))
    events: list[TokenEvent] = []
    records: list[Record] = []
    store = None
    if levels is not None:
        store = KvStore(levels(model), model.executable.kv_pool, intake.wake, model.plan.everything)
    engine = build_engine(
        model, config, intake, publish=events.extend, reply=lambda _: None, emit=records.append, store=store
    )
    return Harness(engine, intake, events, records, store)
