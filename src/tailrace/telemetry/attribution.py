"""Where the time of a server went between two readings, and how far what it did is from what its machine can do.

What binds an op is the ceiling that it is nearest to: the bytes it has to move against how fast the machine reads a
working set as large as a step's, its operations against the arithmetic peak of the numbers that it multiplies.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from tailrace.telemetry.attribution_reading import AttributionReading, OpSums, PathSums, ServedOn, TimedSteps
from tailrace.telemetry.roofline import FEW_ROWS, Ceilings

__all__ = ["Attribution", "OpLine", "PathLine", "Roof", "attribute"]

_FLOATS = {"attention": "bf16", "index": "bf16", "route": "f32"}  # ops that multiply no weights, or never as codes
_ROWS_OF_UNITS = 16  # that matrix units multiply at once: fewer are left to the vectors

Binding = Literal["memory", "arithmetic"]


class Roof(msgspec.Struct, frozen=True):
    """What something did for each second, as shares of the ceilings; None without any."""

    bytes_per_s: float
    ops_per_s: float
    memory_share: float | None
    arithmetic_share: float | None

    @property
    def binds(self) -> Binding | None:
        """The nearer ceiling."""
        if self.memory_share is None or self.arithmetic_share is None:
            return None
        return "memory" if self.memory_share >= self.arithmetic_share else "arithmetic"

    @property
    def share(self) -> float | None:
        """Of the nearer ceiling."""
        if self.memory_share is None or self.arithmetic_share is None:
            return None
        return max(self.memory_share, self.arithmetic_share)


class OpLine(msgspec.Struct, frozen=True):
    """The ops of one kind. `seconds` are of the window: its share of timed steps, of all that was computed."""

    name: str
    seconds: float
    share: float  # of what was computed
    num_bytes: float  # of a timed step
    num_ops: float
    roof: Roof


class PathLine(msgspec.Struct, frozen=True):
    """One part of the way of a token from the engine to its client."""

    name: str
    seconds_per_token: float
    num_tokens: float  # that were timed


class Attribution(msgspec.Struct, frozen=True, kw_only=True):
    """Of one window. Shares of the engine's parts are of `seconds`."""

    seconds: float
    served: ServedOn
    output_tokens_per_s: float
    prompt_tokens_per_s: float
    requests_per_s: float
    steps_per_s: float
    engine: dict[str, float]  # seconds by part
    ops: tuple[OpLine, ...]  # dearest first
    num_timed_steps: float
    is_since_start: bool  # no step of the window was timed: the ops are those of all steps
    whole: Roof | None  # of all ops together; None: no step was timed
    num_first_tokens: float
    first_token: dict[str, float]  # mean seconds by part
    path: tuple[PathLine, ...]
    processes: dict[str, float]  # cores in use, by process

    @property
    def busy_s(self) -> float:
        """That the engine had something to do."""
        return sum(seconds for part, seconds in self.engine.items() if part != "idle")

    @property
    def between_steps_s(self) -> float:
        """That it had, and did not compute."""
        return self.busy_s - self.engine.get("compute", 0.0)

    @property
    def first_token_s(self) -> float:
        return sum(self.first_token.values())


def attribute(first: AttributionReading, last: AttributionReading) -> Attribution:
    """What happened from one reading to a later one of the same server, which was not started anew meanwhile."""
    seconds = last.at_s - first.at_s
    engine = _gains(first.engine_seconds, last.engine_seconds)
    timed = _timed_gains(first.timed, last.timed)
    is_since_start = not any(each.num_steps for each in timed.values())
    steps = last.num_steps - first.num_steps
    output = last.num_output_tokens - first.num_output_tokens
    rows = output / steps if steps > 0.0 else 1.0
    ops = _Ops(last.timed if is_since_start else timed, last.served, rows)
    num_first = last.num_first_tokens - first.num_first_tokens
    first_token = _gains(first.first_token_seconds, last.first_token_seconds)
    return Attribution(
        seconds=seconds,
        served=last.served,
        output_tokens_per_s=output / seconds,
        prompt_tokens_per_s=(last.num_prompt_tokens - first.num_prompt_tokens) / seconds,
        requests_per_s=(last.num_requests - first.num_requests) / seconds,
        steps_per_s=steps / seconds,
        engine=engine,
        ops=ops.lines(engine.get("compute", 0.0)),
        num_timed_steps=ops.num_steps,
        is_since_start=is_since_start,
        whole=ops.whole(),
        num_first_tokens=num_first,
        first_token={part: spent / num_first for part, spent in first_token.items()} if num_first else {},
        path=_path(first.token_path, last.token_path),
        processes={
            name: spent / seconds for name, spent in _gains(first.process_seconds, last.process_seconds).items()
        },
    )


def _gains(first: Mapping[str, float], last: Mapping[str, float]) -> dict[str, float]:
    return {name: max(value - first.get(name, 0.0), 0.0) for name, value in last.items()}


def _timed_gains(first: Mapping[str, TimedSteps], last: Mapping[str, TimedSteps]) -> dict[str, TimedSteps]:
    return {kind: _steps_gain(first.get(kind, TimedSteps()), steps) for kind, steps in last.items()}


def _steps_gain(first: TimedSteps, last: TimedSteps) -> TimedSteps:
    ops = {name: _op_gain(first.ops.get(name, OpSums()), sums) for name, sums in last.ops.items()}
    return TimedSteps(last.num_steps - first.num_steps, last.seconds - first.seconds, ops)


def _op_gain(first: OpSums, last: OpSums) -> OpSums:
    return OpSums(last.seconds - first.seconds, last.num_bytes - first.num_bytes, last.num_ops - first.num_ops)


def _path(first: Mapping[str, PathSums], last: Mapping[str, PathSums]) -> tuple[PathLine, ...]:
    lines = []
    for part, sums in last.items():
        before = first.get(part, PathSums())
        num_tokens = sums.num_tokens - before.num_tokens
        per_token = (sums.seconds - before.seconds) / num_tokens if num_tokens else 0.0
        lines.append(PathLine(part, per_token, num_tokens))
    return tuple(lines)


class _Ops:
    """The ops of timed steps of all kinds, held against the ceilings."""

    def __init__(self, timed: Mapping[str, TimedSteps], served: ServedOn, decode_rows: float) -> None:
        self._timed = timed
        self._numbers = served.weight_numbers
        self._ceilings = served.ceilings
        self._decode_rows = decode_rows
        self.num_steps = sum(each.num_steps for each in timed.values())

    def lines(self, compute_s: float) -> tuple[OpLine, ...]:
        """Of all that was computed, in `compute_s`, each kind's share. Dearest first."""
        total_s = sum(sums.seconds for steps in self._timed.values() for sums in steps.ops.values())
        if not total_s:
            return ()
        names = {name for steps in self._timed.values() for name in steps.ops}
        lines = [self._line(name, total_s, compute_s) for name in names]
        return tuple(sorted((line for line in lines if line.share > 0.0), key=lambda line: -line.share))

    def _line(self, name: str, total_s: float, compute_s: float) -> OpLine:
        all_sums = [(kind, steps.ops.get(name, OpSums())) for kind, steps in self._timed.items()]
        seconds = sum(sums.seconds for _, sums in all_sums)
        num_bytes, num_ops = sum(sums.num_bytes for _, sums in all_sums), sum(sums.num_ops for _, sums in all_sums)
        least = [self._least_s(kind, name, sums) for kind, sums in all_sums]
        share = seconds / total_s
        roof = self._roof(seconds, num_bytes, num_ops, least)
        return OpLine(name, share * compute_s, share, num_bytes / self.num_steps, num_ops / self.num_steps, roof)

    def whole(self) -> Roof | None:
        """Of timed steps from their first to their last moment; None when there are none."""
        seconds = sum(steps.seconds for steps in self._timed.values())
        if not seconds:
            return None
        every = [(kind, name, sums) for kind, steps in self._timed.items() for name, sums in steps.ops.items()]
        least = [self._least_s(*each) for each in every]
        return self._roof(
            seconds, sum(sums.num_bytes for *_, sums in every), sum(sums.num_ops for *_, sums in every), least
        )

    def _roof(self, seconds: float, num_bytes: float, num_ops: float, least: list[tuple[float, float]]) -> Roof:
        """`least`: the seconds that reading, and multiplying, would have taken at the ceilings."""
        if seconds <= 0.0:
            return Roof(0.0, 0.0, None, None)
        has_ceilings = self._ceilings is not None
        return Roof(
            num_bytes / seconds,
            num_ops / seconds,
            sum(read_s for read_s, _ in least) / seconds if has_ceilings else None,
            sum(multiply_s for _, multiply_s in least) / seconds if has_ceilings else None,
        )

    def _least_s(self, kind: str, name: str, sums: OpSums) -> tuple[float, float]:
        if self._ceilings is None:
            return 0.0, 0.0
        peak = self._peak(self._ceilings, kind, name)
        return sums.num_bytes / self._rate(self._ceilings, kind), sums.num_ops / peak if peak else 0.0

    def _rate(self, ceilings: Ceilings, kind: str) -> float:
        """Of reading. What a step reads is read once, so that a cache holds all of it or hardly anything."""
        steps = self._timed[kind]
        step_bytes = sum(sums.num_bytes for sums in steps.ops.values()) / max(steps.num_steps, 1.0)
        return ceilings.read_bytes_per_s(step_bytes)

    def _peak(self, ceilings: Ceilings, kind: str, name: str) -> float | None:
        numbers = _FLOATS.get(name, self._numbers)
        if numbers == "int8" and kind == "decode" and self._decode_rows < _ROWS_OF_UNITS:
            return ceilings.peak(FEW_ROWS) or ceilings.peak(numbers)
        return ceilings.peak(numbers)
