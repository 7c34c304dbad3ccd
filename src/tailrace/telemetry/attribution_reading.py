"""What a server says of where its time went, at one moment: sums since it started, and what to hold them against.

Two such readings, one after the other, are what `attribution` makes its figures of.
"""

import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from tailrace.telemetry.prometheus import Metrics
from tailrace.telemetry.roofline import Ceilings

__all__ = ["AttributionReading", "OpSums", "PathSums", "ServedOn", "TimedSteps", "host_name", "read_attribution"]

_BOOT, _PROCESSES = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")


class ServedOn(msgspec.Struct, frozen=True):
    """What of a server does not change: what it serves, and on which machine."""

    model: str
    version: str
    num_threads: int
    weight_numbers: str  # what weights are multiplied as, by its name in a roofline
    ceilings: Ceilings | None  # None: `tailrace roofline` has not run there
    host: str  # the same for processes that see each other; empty: unknown


class OpSums(msgspec.Struct):
    """Of the ops of one kind in timed steps."""

    seconds: float = 0.0
    num_bytes: float = 0.0
    num_ops: float = 0.0


class TimedSteps(msgspec.Struct):
    """Those steps whose ops were timed."""

    num_steps: float = 0.0
    seconds: float = 0.0
    ops: dict[str, OpSums] = msgspec.field(default_factory=dict)


class PathSums(msgspec.Struct):
    """Of one part of the way of tokens to their clients, of those pieces that were timed."""

    seconds: float = 0.0
    num_pieces: float = 0.0
    num_tokens: float = 0.0


class AttributionReading(msgspec.Struct, kw_only=True):
    """`at_s` is in the server's monotonic seconds; all else but `served` and `engine_pid` are sums since its start."""

    at_s: float
    served: ServedOn
    engine_pid: int | None
    engine_seconds: dict[str, float]  # by part
    num_steps: float
    num_output_tokens: float
    num_prompt_tokens: float  # computed
    num_requests: float  # ended
    timed: dict[str, TimedSteps]  # by kind of step: decode, prompt
    num_first_tokens: float
    first_token_seconds: dict[str, float]  # by part
    token_path: dict[str, PathSums]  # by part
    process_seconds: dict[str, float]  # of processor time, by process


def read_attribution(metrics: Metrics, served: ServedOn) -> AttributionReading:
    """What the metrics of all processes say."""
    sums = _Sums(metrics)
    pid = sums.by_label("tailrace_process_id").get("engine")
    return AttributionReading(
        at_s=time.monotonic(),
        served=served,
        engine_pid=None if pid is None else int(pid),
        engine_seconds=sums.by_label("tailrace_engine_seconds"),
        num_steps=sums.count("tailrace_step_seconds"),
        num_output_tokens=sums.total("tailrace_generation_tokens"),
        num_prompt_tokens=sums.by_label("tailrace_computed_tokens").get("prompt", 0.0),
        num_requests=sums.total("tailrace_requests_finished"),
        timed=_timed(sums),
        num_first_tokens=sums.total("tailrace_first_tokens"),
        first_token_seconds=sums.by_label("tailrace_first_token_part_seconds"),
        token_path=_token_path(sums),
        process_seconds=sums.by_label("tailrace_process_cpu_seconds"),
    )


def _timed(sums: "_Sums") -> dict[str, TimedSteps]:
    """By kind of step."""
    seconds = sums.by_label("tailrace_timed_step_seconds")
    timed = {
        kind: TimedSteps(count, seconds.get(kind, 0.0)) for kind, count in sums.by_label("tailrace_timed_steps").items()
    }
    for field, name in (("seconds", "seconds"), ("num_bytes", "bytes"), ("num_ops", "operations")):
        for (op, kind), amount in sums.labelled(f"tailrace_op_{name}").items():
            setattr(timed.setdefault(kind, TimedSteps()).ops.setdefault(op, OpSums()), field, amount)
    return timed


def _token_path(sums: "_Sums") -> dict[str, PathSums]:
    pieces, tokens = sums.by_label("tailrace_token_path_pieces"), sums.by_label("tailrace_token_path_tokens")
    return {
        part: PathSums(seconds, pieces.get(part, 0.0), tokens.get(part, 0.0))
        for part, seconds in sums.by_label("tailrace_token_path_seconds").items()
    }


class _Sums:
    """Values of series by name. One that is not there is empty."""

    def __init__(self, metrics: Metrics) -> None:
        self._values = {metric.name: dict(samples) for metric, samples in metrics.samples()}

    def labelled(self, name: str) -> Mapping[tuple[str, ...], float]:
        return {labels: values[0] for labels, values in self._values.get(name, {}).items()}

    def by_label(self, name: str) -> dict[str, float]:
        """Of a series with one label."""
        return {label: value for (label,), value in self.labelled(name).items()}

    def total(self, name: str) -> float:
        return sum(self.labelled(name).values())

    def count(self, name: str) -> float:
        """How many observations a histogram has."""
        histograms: Sequence[Sequence[float]] = list(self._values.get(name, {}).values())
        return sum(sum(values[:-1]) for values in histograms)


def host_name() -> str:
    """Stands for this start of this machine and the processes one sees on it, and tells nothing else of them."""
    try:
        seen = _BOOT.read_text("ascii").strip() + os.readlink(_PROCESSES)  # noqa: PTH115  (a name, no path)
    except OSError:
        return ""
    return hashlib.sha256(seen.encode()).hexdigest()[:16]
