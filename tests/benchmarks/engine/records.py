"""Step records with the times and counts that matter to a test."""

from tailrace.records import PoolRecord, StepRecord

__all__ = ["step_record"]


def step_record(started_s: float, *, num_tokens: int, num_running: int) -> StepRecord:
    """Planned 1, computed 8 and finished 9 milliseconds after its start."""
    return StepRecord(
        step_id=0,
        started_s=started_s,
        planned_s=started_s + 0.001,
        computed_s=started_s + 0.008,
        finished_s=started_s + 0.009,
        num_tokens=num_tokens,
        num_sampled=num_running,
        num_prefill_tokens=0,
        num_context_tokens=0,
        num_read_tokens=0,
        num_running=num_running,
        num_waiting=0,
        num_preempted=0,
        num_blocks_used=0,
        num_blocks_cached=0,
        num_blocks_total=0,
        pool=PoolRecord(),
    )
