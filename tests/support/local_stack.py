"""A server in this process but for its sockets: a step loop over a fake device, the text side, and what is counted."""

import asyncio
import threading

from tailrace.engine.engine import Engine, Publish, Reply
from tailrace.engine.intake import Intake, IntakeConfig
from tailrace.engine.local import LocalEngine
from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.scheduler.plan import SampledToken, StepPlan, StepResult
from tailrace.scheduler.scheduler import Scheduler, SchedulerConfig
from tailrace.service.api import ModelCard
from tailrace.service.service import TextService
from tailrace.telemetry.lives import RequestLife
from tailrace.telemetry.prometheus import Metrics
from tests.support.text import byte_level_tokenizer

__all__ = ["BUDGET_TOKENS", "LocalStack"]

BUDGET_TOKENS = 16
_MAX_MODEL_TOKENS = 256
_TOKENIZER = byte_level_tokenizer()
_LETTERS = [_TOKENIZER.encode(letter, allow_control=False)[0] for letter in "abcdefg"]


class _Device:
    """Draws letters, one after another of each sequence; waits while its gate is closed."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()

    def run(self, plan: StepPlan) -> StepResult:
        self.gate.wait()
        tokens = [
            SampledToken(part.request_id, _LETTERS[(part.start + part.num_tokens) % len(_LETTERS)])
            for part in plan.slices
            if part.is_sampled
        ]
        return StepResult(plan.step_id, tuple(tokens))


class LocalStack:
    """Make it on the event loop of its readers, and `close` it. Steps take at most `BUDGET_TOKENS`."""

    def __init__(self, max_queued: int = 64) -> None:
        bounds = IntakeConfig(max_queued, max_queued_tokens=1 << 20, max_model_tokens=_MAX_MODEL_TOKENS)
        self.device = _Device()
        self.failed = asyncio.Event()
        self.metrics = Metrics(model_name="tiny", version="1.2.3")
        self._intake = Intake(bounds)
        self.engine = LocalEngine(self._intake, self._build, self.failed.set)
        card = ModelCard("tiny", (), 0, _MAX_MODEL_TOKENS, _TOKENIZER.vocab_size)
        observe_text = self.metrics.paths.observer("text")
        self.service = TextService(self.engine, _TOKENIZER, None, card, observe_text=observe_text)

    def _build(self, publish: Publish, reply: Reply) -> Engine:
        config = SchedulerConfig(BUDGET_TOKENS, max_running=16, max_model_tokens=_MAX_MODEL_TOKENS, eos_ids=())
        scheduler = Scheduler(config, KvCache(KvCacheConfig(num_blocks=2048, block_tokens=4, root_parts=("m",))))
        return Engine(scheduler, self.device, self._intake, publish=publish, reply=reply, emit=self.metrics.record)

    @property
    def lives(self) -> list[RequestLife]:
        """Those that have ended, the first to end first. None may be left that has not."""
        lives = self.metrics.lives.lives()
        assert all(life.ended_s is not None for life in lives)
        return lives[::-1]

    @property
    def life(self) -> RequestLife:
        """The only one."""
        (life,) = self.lives
        return life

    def values(self, name: str) -> dict[str, float]:
        """Of a series with one label, whose name begins with 'tailrace_'."""
        (series,) = [each for each in self.metrics.paths.series if each.metric.name == f"tailrace_{name}"]
        return {labels[0]: value for labels, value in series.values.items()}  # type: ignore[union-attr]  # as its name says

    def close(self) -> None:
        self.device.gate.set()
        self.engine.close()
