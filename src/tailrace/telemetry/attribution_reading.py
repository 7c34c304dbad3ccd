"""What a server says of where its time went, at one moment: sums since it started, and what to hold them against.

Two such readings, one after the other, are what `attribution` makes its figures of.
"""

import hashlib
import os
from pathlib import Path

import msgspec

from tailrace.telemetry.catalogs import lives as life_catalog
from tailrace.telemetry.catalogs import ops as op_catalog
from tailrace.telemetry.catalogs import process as process_catalog
from tailrace.telemetry.catalogs import steps as step_catalog
from tailrace.telemetry.catalogs.engine_time import ENGINE_SECONDS
from tailrace.telemetry.catalogs.requests import REQUESTS_FINISHED
from tailrace.telemetry.readings import Reading
from tailrace.telemetry.roofline import Ceilings

__all__ = ["AttributionReading", "OpSums", "PathSums", "ServedOn", "TimedSteps", "host_name", "read_attribution"]

_OP_SUMS = {
    "seconds": op_catalog.OP_SECONDS,
    "num_bytes": op_catalog.OP_BYTES,
    "num_ops": op_catalog.OP_OPERATIONS,
}
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


def read_attribution(sums: Reading, served: ServedOn) -> AttributionReading:
    """What the metrics of all processes say."""
    pid = sums.by_label(process_catalog.PROCESS_ID).get("engine")
    return AttributionReading(
        at_s=sums.at_s,
        served=served,
        engine_pid=None if pid is None else int(pid),
        engine_seconds=sums.by_label(ENGINE_SECONDS),
        num_steps=sums.num_observed(step_catalog.STEP_SECONDS),
        num_output_tokens=sums.value(step_catalog.GENERATION_TOKENS) or 0.0,
        num_prompt_tokens=sums.by_label(step_catalog.COMPUTED_TOKENS).get("prompt", 0.0),
        num_requests=sums.value(REQUESTS_FINISHED) or 0.0,
        timed=_timed(sums),
        num_first_tokens=sums.value(life_catalog.FIRST_TOKENS) or 0.0,
        first_token_seconds=sums.by_label(life_catalog.FIRST_TOKEN_PART_SECONDS),
        token_path=_token_path(sums),
        process_seconds=sums.by_label(process_catalog.PROCESS_CPU_SECONDS),
    )


def _timed(sums: Reading) -> dict[str, TimedSteps]:
    """By kind of step."""
    seconds = sums.by_label(op_catalog.TIMED_STEP_SECONDS)
    timed = {
        kind: TimedSteps(count, seconds.get(kind, 0.0)) for kind, count in sums.by_label(op_catalog.TIMED_STEPS).items()
    }
    for field, metric in _OP_SUMS.items():
        for (op, kind), amount in sums.numbers(metric).items():
            setattr(timed.setdefault(kind, TimedSteps()).ops.setdefault(op, OpSums()), field, amount)
    return timed


def _token_path(sums: Reading) -> dict[str, PathSums]:
    pieces, tokens = sums.by_label(life_catalog.TOKEN_PATH_PIECES), sums.by_label(life_catalog.TOKEN_PATH_TOKENS)
    return {
        part: PathSums(seconds, pieces.get(part, 0.0), tokens.get(part, 0.0))
        for part, seconds in sums.by_label(life_catalog.TOKEN_PATH_SECONDS).items()
    }


def host_name() -> str:
    """Stands for this start of this machine and the processes one sees on it, and tells nothing else of them."""
    try:
        seen = _BOOT.read_text("ascii").strip() + os.readlink(_PROCESSES)  # noqa: PTH115  (a name, no path)
    except OSError:
        return ""
    return hashlib.sha256(seen.encode()).hexdigest()[:16]
