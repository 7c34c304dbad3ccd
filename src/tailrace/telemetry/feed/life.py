"""One request in full, as the console opens it."""

import msgspec

from tailrace.telemetry.life_parts import LifePart, parts_of
from tailrace.telemetry.lives import RequestLife

__all__ = ["ShownLife", "shown_life"]


class ShownPart(msgspec.Struct):
    """From when the request's head was there."""

    name: str
    start_s: float
    end_s: float
    tokens: int


class ShownLife(msgspec.Struct):
    id: str
    endpoint: str
    class_name: str = msgspec.field(name="class")
    trace: str
    finish_reason: str | None
    error: str | None
    num_prompt_tokens: int
    num_output_tokens: int
    num_cached_tokens: int
    found: dict[str, int]
    miss_reason: str | None
    num_preemptions: int  # before its first token
    took_s: float | None
    parts: list[ShownPart]


def shown_life(life: RequestLife) -> ShownLife:
    return ShownLife(
        id=life.request_id,
        endpoint=life.endpoint,
        class_name=life.class_name,
        trace=life.trace,
        finish_reason=life.finish_reason,
        error=life.error,
        num_prompt_tokens=life.num_prompt_tokens,
        num_output_tokens=life.num_output_tokens,
        num_cached_tokens=sum(life.found.values()),
        found=life.found,
        miss_reason=life.miss_reason,
        num_preemptions=0 if life.beginning is None else life.beginning.num_preemptions,
        took_s=None if life.ended_s is None else life.ended_s - life.accepted_s,
        parts=[_shown(part, life.accepted_s) for part in parts_of(life)],
    )


def _shown(part: LifePart, zero_s: float) -> ShownPart:
    return ShownPart(part.name, part.start_s - zero_s, part.end_s - zero_s, part.num_tokens)
