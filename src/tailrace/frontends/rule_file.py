"""Rules that act upon the server as lines of a file.

{"name": "slow-redis", "signal": "hit_rate", "of": "redis", "below": 0.6, "for_s": 180, "action": "bypass"}
{"name": "gold-first", "signal": "ttft_p99", "of": "gold", "above": 1, "for_s": 60, "action": "shed", "on": "bronze"}
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from tailrace.classes import ServiceClasses
from tailrace.errors import SetupError
from tailrace.frontends.json_lines import decode_lines
from tailrace.rules.rule import ACTS_ON, LOOKS_AT, MAX_RULES, Action, Part, Rule, Side, Signal
from tailrace.types import Level

__all__ = ["read_rules"]

_MAX_FILE_BYTES = 1 << 20
_CLEAR_MARGIN = 0.1  # of the threshold, on the side of the well
_MOST_SHARE = 1.0
_SHARES = (Signal.HIT_RATE, Signal.LATE_TOKENS, Signal.KV_USE)

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Threshold = Annotated[float, Meta(ge=0, le=1e9)]


class _Line(Struct, forbid_unknown_fields=True):
    name: str
    signal: Signal
    for_s: Seconds
    of: str | None = None
    below: Threshold | None = None
    above: Threshold | None = None
    action: Action = Action.WARN
    on: str | None = None
    clear_at: Threshold | None = None
    clear_for_s: Seconds | None = None
    window_s: Seconds | None = None
    min_samples: Annotated[int, Meta(ge=1, le=1_000_000)] = 20
    least_loss_ms: Annotated[float, Meta(ge=0, le=60_000)] | None = None


def read_rules(path: Path, classes: ServiceClasses, levels: Sequence[Level]) -> tuple[Rule, ...]:
    """For a server with these classes and levels below the engine. Raises SetupError with the line and the field."""
    rules: dict[str, Rule] = {}
    known = {Part.CLASS: [each.name for each in classes], Part.LEVEL: [each.value for each in levels], Part.SERVER: []}
    for place, line in decode_lines(path, _Line, max_bytes=_MAX_FILE_BYTES):
        if line.name in rules:
            raise SetupError(f"{place}: the name {line.name[:64]!r} is there twice")
        if len(rules) == MAX_RULES:
            raise SetupError(f"{place}: there can be {MAX_RULES} rules: leave some out")
        rules[line.name] = _rule(line, known, place)
    return tuple(rules.values())


def _rule(line: _Line, known: dict[Part, list[str]], place: str) -> Rule:
    looks_at, acts_on = LOOKS_AT[line.signal], ACTS_ON[line.action]
    subject = _part_name(line.of, "of", looks_at, known, f"{place}: signal {line.signal}")
    is_same = (
        line.on is None and acts_on is looks_at is not Part.SERVER
    )  # what is looked at is what is acted on, unless it is said
    target = _part_name(subject if is_same else line.on, "on", acts_on, known, f"{place}: action {line.action}")
    if line.least_loss_ms is not None and line.signal is not Signal.HIT_RATE:
        raise SetupError(f"{place}: least_loss_ms is of the signal {Signal.HIT_RATE}, not of {line.signal}")
    side, threshold = _threshold(line, place)
    try:
        return Rule(
            line.name,
            line.signal,
            subject,
            side,
            threshold,
            for_s=line.for_s,
            clear_at=_clear_at(line, side, threshold),
            clear_for_s=line.clear_for_s or line.for_s,
            action=line.action,
            target=target,
            window_s=line.window_s or max(line.for_s, 1.0),
            min_samples=line.min_samples,
            least_loss_s=None if line.least_loss_ms is None else line.least_loss_ms / 1e3,
        )
    except SetupError as error:
        raise SetupError(f"{place}: {error}") from None


def _part_name(name: str | None, field: str, part: Part, known: dict[Part, list[str]], wants: str) -> str:
    """The level or class that a field names. Raises SetupError for one that is not there."""
    if part is Part.SERVER:
        if name is not None:
            raise SetupError(f"{wants} is of the whole server: leave {field!r} out")
        return ""
    if name is None or name not in known[part]:
        given = "it is missing" if name is None else f"not {name[:64]!r}"
        there = ", ".join(known[part]) or f"one, and this server has no {part}"
        raise SetupError(f"{wants} needs a {part} in {field!r}: {there}; {given}")
    return name


def _threshold(line: _Line, place: str) -> tuple[Side, float]:
    if line.below is not None and line.above is None:
        return Side.BELOW, line.below
    if line.above is not None and line.below is None:
        return Side.ABOVE, line.above
    raise SetupError(f"{place}: give one of 'below' and 'above'")


def _clear_at(line: _Line, side: Side, threshold: float) -> float:
    """What was said, else a tenth beyond the threshold; a share is never above 1."""
    if line.clear_at is not None:
        return line.clear_at
    if side is Side.ABOVE:
        return round(threshold * (1.0 - _CLEAR_MARGIN), 6)
    beyond = round(threshold * (1.0 + _CLEAR_MARGIN), 6)
    return max(min(beyond, _MOST_SHARE), threshold) if line.signal in _SHARES else beyond
