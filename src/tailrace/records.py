"""What the engine tells about itself: one plain record a step and a request. Sinks live in `telemetry`.

All times are monotonic seconds of the engine's process; only such times are subtracted.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tailrace.types import FinishReason

__all__ = ["LoadRecord", "Record", "RecordSink", "RequestRecord", "StepRecord"]


@dataclass(frozen=True, slots=True)
class StepRecord:
    step_id: int
    started_s: float
    planned_s: float  # the plan was ready
    computed_s: float  # the device was done
    finished_s: float  # committed and published
    num_tokens: int  # computed in this step
    num_sampled: int  # rows put through the head
    num_prefill_tokens: int  # of num_tokens, those in slices of more than a sequence's newest token
    num_context_tokens: int  # KV rows the queries could see, summed over sequences
    num_running: int
    num_waiting: int
    num_preempted: int  # since the engine started
    num_blocks_used: int  # referenced by a running request
    num_blocks_cached: int  # idle, named, reusable
    num_blocks_total: int


@dataclass(frozen=True, slots=True)
class RequestRecord:
    request_id: str
    arrived_s: float
    started_s: float | None  # first planned; None: never
    first_token_s: float | None
    finished_s: float
    num_prompt_tokens: int
    num_cached_tokens: int
    num_output_tokens: int
    num_preemptions: int
    finish_reason: FinishReason


@dataclass(frozen=True, slots=True)
class LoadRecord:
    """How full the engine is after a change that no step brought: requests were aborted, maybe the last ones."""

    num_running: int
    num_waiting: int
    num_blocks_used: int
    num_blocks_cached: int
    num_blocks_total: int


Record = StepRecord | RequestRecord | LoadRecord
RecordSink = Callable[[Record], None]
