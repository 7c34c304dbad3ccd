"""The policies that can be compared, by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tailrace.classes import STANDARD, ServiceClasses
from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.measure.simulation.policies.batching import (
    AdaptiveSize,
    Batcher,
    FixedSize,
    FullLength,
    LongestLength,
)
from tailrace.measure.simulation.policies.turns import Turns
from tailrace.measure.simulation.seam import PlanMaker
from tailrace.scheduler.scheduler import Scheduler, SchedulerConfig
from tailrace.scheduler.steptime import StepTimeModel

__all__ = ["POLICIES", "Batching", "Bounds", "classes_of", "make_planner", "one_class"]

POLICIES = {
    "tailrace": "the scheduler as the server runs it",
    "fcfs": "the same scheduler, all classes equal, nobody refused: first come, first served",
    "round-robin": "the same, but classes take turns",
    "static": "batches of a fixed size, prompts padded to a fixed length",
    "adaptive-batch": "batches of whatever waits, prompts padded to a fixed length",
    "dynamic-length": "batches of a fixed size, prompts padded to the longest of the batch",
    "adaptive-both": "batches of whatever waits, prompts padded to the longest of the batch",
}


@dataclass(frozen=True, slots=True)
class Batching:
    """How the old policies form batches of a fixed size and pad to a fixed length."""

    size: int = 32
    patience_s: float = 0.05
    padded_tokens: int = 512


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of the engine; `classes` as the machine can keep their targets."""

    max_running: int = 64
    budget_tokens: int = 512
    chunk_tokens: int | None = None
    max_model_tokens: int = 8_192
    block_tokens: int = 16
    kv_tokens: int = 32_768
    classes: ServiceClasses = STANDARD
    target_scale: float = 1.0  # how many times as long as on faster machines their targets are
    batching: Batching = field(default_factory=Batching)

    @property
    def num_blocks(self) -> int:
        return self.kv_tokens // self.block_tokens


def make_planner(policy: str, bounds: Bounds, step_times: StepTimeModel | None = None) -> PlanMaker:
    """`step_times`: what a scheduler knows of the machine when it starts; it goes on learning."""
    return _MAKERS[policy](bounds, step_times)


def classes_of(policy: str, bounds: Bounds) -> ServiceClasses:
    """Those that the policy tells apart."""
    return bounds.classes if policy == "tailrace" else one_class(bounds.classes)


def one_class(classes: ServiceClasses) -> ServiceClasses:
    """All requests are treated as those of the best class, but none is refused."""
    only = replace(classes.patient.best, name="all", min_share=0.0)
    return ServiceClasses((only,), only.name)


def _scheduler(bounds: Bounds, step_times: StepTimeModel | None) -> Scheduler:
    config = SchedulerConfig(
        budget_tokens=bounds.budget_tokens,
        max_running=bounds.max_running,
        max_model_tokens=bounds.max_model_tokens,
        eos_ids=(),
        chunk_tokens=bounds.chunk_tokens,
        classes=bounds.classes,
        target_scale=bounds.target_scale,
    )
    cache = KvCache(KvCacheConfig(bounds.num_blocks, bounds.block_tokens, ("simulated",)))
    return Scheduler(config, cache, step_times=step_times)


def _classless(bounds: Bounds, step_times: StepTimeModel | None) -> Scheduler:
    return _scheduler(replace(bounds, classes=one_class(bounds.classes)), step_times)


def _batches(bounds: Bounds, *, is_adaptive: bool, is_dynamic: bool) -> Batcher:
    batching = bounds.batching
    fixed = FixedSize(batching.size, batching.patience_s)
    return Batcher(
        AdaptiveSize(bounds.max_running) if is_adaptive else fixed,
        LongestLength() if is_dynamic else FullLength(batching.padded_tokens),
        bounds.num_blocks,
        bounds.block_tokens,
    )


_MAKERS: Mapping[str, Callable[[Bounds, StepTimeModel | None], PlanMaker]] = {
    "tailrace": _scheduler,
    "fcfs": lambda bounds, times: Turns(_classless(bounds, times), lambda request: ""),
    "round-robin": lambda bounds, times: Turns(_classless(bounds, times), lambda request: request.class_name),
    "static": lambda bounds, _: _batches(bounds, is_adaptive=False, is_dynamic=False),
    "adaptive-batch": lambda bounds, _: _batches(bounds, is_adaptive=True, is_dynamic=False),
    "dynamic-length": lambda bounds, _: _batches(bounds, is_adaptive=False, is_dynamic=True),
    "adaptive-both": lambda bounds, _: _batches(bounds, is_adaptive=True, is_dynamic=True),
}
