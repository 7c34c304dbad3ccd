"""Requests as the console lists them, and one of them with all its parts."""

from collections.abc import Iterable, Sequence

from tailrace.telemetry.feed.frame import RequestLine
from tailrace.telemetry.feed.steps import StepLine
from tailrace.telemetry.lives import RequestLife

__all__ = ["request_lines"]

_MAX_LINES = 60


def request_lines(lives: Iterable[RequestLife], steps: Sequence[StepLine], now_s: float) -> list[RequestLine]:
    """The newest first. `steps` are the latest: who has a prompt in one of them is being computed."""
    newest = sorted(lives, key=lambda life: life.accepted_s, reverse=True)[:_MAX_LINES]
    computed = {request_id for step in steps for request_id, _ in step.prompts}
    return [_line(life, computed, now_s) for life in newest]


def _line(life: RequestLife, computed: set[str], now_s: float) -> RequestLine:
    return RequestLine(
        id=life.request_id,
        endpoint=life.endpoint,
        class_name=life.class_name,
        state=_state(life, computed),
        ago_s=now_s - life.accepted_s,
        took_s=None if life.ended_s is None else life.ended_s - life.accepted_s,
        ttft_s=None if life.text_s is None else life.text_s - life.accepted_s,
        num_prompt_tokens=life.num_prompt_tokens,
        num_cached_tokens=sum(life.found.values()),
        num_output_tokens=life.num_output_tokens,
        finish_reason=life.finish_reason,
        error=life.error,
    )


def _state(life: RequestLife, computed: set[str]) -> str:
    if life.ended_s is not None:
        return "ended"
    if life.received_s is not None:
        return "decoding"
    return "prefill" if any(each.startswith(life.request_id) for each in computed) else "waiting"
