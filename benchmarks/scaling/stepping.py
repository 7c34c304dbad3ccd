"""The real engine, scheduler and cache over a device that takes no time: what a step costs besides computing.

Processor time of this thread, so that neighbours on the machine add little.
"""

import time
from collections.abc import Sequence
from itertools import count

from tailrace.engine.engine import Engine
from tailrace.engine.intake import Intake, IntakeConfig
from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.scheduler.plan import SampledToken, StepPlan, StepResult
from tailrace.scheduler.scheduler import Scheduler, SchedulerConfig
from tailrace.types import Request, SamplingParams, TokenEvent

__all__ = ["EngineInSteps"]

BLOCK_TOKENS = 16
PROMPT_TOKENS = 64
MAX_MODEL_TOKENS = 2048
_TOKEN_ID = 7
_UNBOUNDED = 10**9


class _Instantly:
    """A device that samples one token everywhere; the time it takes is not the engine's."""

    def __init__(self) -> None:
        self.time_s = 0.0

    def run(self, plan: StepPlan) -> StepResult:
        started_s = time.thread_time()
        sampled = tuple(SampledToken(part.request_id, _TOKEN_ID) for part in plan.slices if part.is_sampled)
        self.time_s += time.thread_time() - started_s
        return StepResult(plan.step_id, sampled)


class EngineInSteps:
    """`num_running` requests in decode and `num_waiting` behind them; a request that ends is replaced by a new one."""

    def __init__(self, num_running: int, num_waiting: int, answer_tokens: int = MAX_MODEL_TOKENS) -> None:
        self._answer_tokens = answer_tokens
        self._numbers = count()
        self._num_ended = 0
        self._device = _Instantly()
        self._intake = Intake(IntakeConfig(_UNBOUNDED, _UNBOUNDED, _UNBOUNDED))
        num_blocks = num_running * MAX_MODEL_TOKENS // BLOCK_TOKENS
        cache = KvCache(KvCacheConfig(num_blocks, BLOCK_TOKENS, ("bench",)))
        self._scheduler = Scheduler(_config(num_running), cache)
        self._engine = Engine(
            self._scheduler,
            self._device,
            self._intake,
            publish=self._publish,
            reply=lambda _answer: None,
            emit=lambda _record: None,
        )
        self._submit(num_running + num_waiting)
        self._engine.drain_intake()
        for _ in range(3):
            self._engine.step()

    @property
    def num_running(self) -> int:
        return self._scheduler.stats.num_running

    @property
    def num_waiting(self) -> int:
        return self._scheduler.stats.num_waiting

    def step_us(self) -> float:
        """One step without the device's time; those who take the place of the ended come in between, unmeasured."""
        self._submit(self._num_ended)
        self._num_ended = 0
        self._device.time_s = 0.0
        started_s = time.thread_time()
        self._engine.drain_intake()
        self._engine.step()
        return (time.thread_time() - started_s - self._device.time_s) * 1e6

    def typical_us(self, num_steps: int) -> float:
        """The mean of `num_steps` steps, the slowest hundredth, interrupted ones, left out."""
        times = sorted(self.step_us() for _ in range(num_steps))
        kept = times[: max(1, num_steps * 99 // 100)]
        return sum(kept) / len(kept)

    def _submit(self, num_requests: int) -> None:
        for number in (next(self._numbers) for _ in range(num_requests)):
            first = number * PROMPT_TOKENS  # no two share a block
            prompt = range(first, first + PROMPT_TOKENS)
            self._intake.submit(Request(f"r{number}", prompt, SamplingParams(self._answer_tokens, ignore_eos=True)))

    def _publish(self, events: Sequence[TokenEvent]) -> None:
        self._num_ended += sum(event.finish_reason is not None for event in events)


def _config(num_running: int) -> SchedulerConfig:
    return SchedulerConfig(
        budget_tokens=num_running * PROMPT_TOKENS,
        max_running=num_running,
        max_model_tokens=MAX_MODEL_TOKENS,
        eos_ids=(0,),
        chunk_tokens=num_running * PROMPT_TOKENS,
    )
