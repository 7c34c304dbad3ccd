"""How full the scheduler is, and what it has done since the start."""

from typing import NamedTuple

from tailrace.kvcache.cache import KvCache
from tailrace.records import PreemptionCount
from tailrace.scheduler.giving_way import GivingWay
from tailrace.scheduler.pacing import Pacer
from tailrace.scheduler.queue import WaitingQueue
from tailrace.scheduler.running import RunningSet

__all__ = ["SchedulerStats", "gather_stats"]


class SchedulerStats(NamedTuple):
    num_running: int
    num_waiting: int  # ready and deferred
    num_deferred: int  # of num_waiting, those that wait for a prefix: for who computes it, or for a level below
    num_waiting_tokens: int
    num_preempted_total: int
    preemptions: tuple[PreemptionCount, ...]  # the same by class and cause
    num_blocks_used: int
    num_blocks_cached: int
    num_blocks_total: int
    num_blocks_evicted_total: int
    num_query_tokens_total: int  # looked up in the prefix cache when first admitted
    num_hit_tokens_total: int  # of these, found
    running_by_class: tuple[int, ...]  # in the order of the classes
    waiting_by_class: tuple[int, ...]
    max_running: int  # as the controller has it
    pace: float
    target_scale: float  # how many times as long as configured the targets of the classes are
    predicted_s: float | None  # of the step that was planned last


def gather_stats(
    running: RunningSet, queue: WaitingQueue, cache: KvCache, way: GivingWay, pacer: Pacer
) -> SchedulerStats:
    """As things are now. Looked at after each step: nothing here walks over requests or blocks."""
    kv = cache.stats
    return SchedulerStats(
        num_running=len(running),
        num_waiting=len(queue),
        num_deferred=queue.num_deferred,
        num_waiting_tokens=queue.num_tokens,
        num_preempted_total=sum(count.num_requests for count in way.counts),
        preemptions=way.counts,
        num_blocks_used=kv.num_used,
        num_blocks_cached=kv.num_cached,
        num_blocks_total=kv.num_total,
        num_blocks_evicted_total=kv.num_evicted,
        num_query_tokens_total=kv.num_query_tokens,
        num_hit_tokens_total=kv.num_hit_tokens,
        running_by_class=tuple(running.num_by_class.values()),
        waiting_by_class=tuple(queue.num_by_class.values()),
        max_running=pacer.control.max_running,
        pace=pacer.control.pace,
        target_scale=pacer.targets.scale,
        predicted_s=pacer.predicted_s,
    )
