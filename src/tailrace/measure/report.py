"""What measuring a shape has found: plain figures, beside the time that reading memory takes alone."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from tailrace.bench.statistics import percentile
from tailrace.measure.streams import SteadyDecode

__all__ = ["DecodeReport", "ShapeReport", "decode_report"]


@dataclass(frozen=True, slots=True)
class DecodeReport:
    """Steady decode of `num_streams` streams, with the times between their tokens."""

    num_streams: int
    context_tokens: int
    num_steps: int
    itl_p50_ms: float
    itl_p90_ms: float
    tokens_per_s: float
    read_bytes: int  # in a step: the weights it needs, keys and values
    read_bytes_per_s: float | None  # of the machine, right before and after; None where that is not known
    floor_ms: float | None  # to read these at that rate

    @property
    def floor_ratio(self) -> float | None:
        return None if self.floor_ms is None else self.itl_p50_ms / self.floor_ms


@dataclass(frozen=True, slots=True)
class ShapeReport:
    """Of one run."""

    name: str
    weights: str
    back_end: str  # and how it keeps keys and values
    num_threads: int
    parameters: int
    weight_bytes: int
    load_s: float
    prompt_tokens: int
    prefills_ms: Sequence[float]
    decodes: Sequence[DecodeReport]

    @property
    def prefill_ms(self) -> float:
        return median(self.prefills_ms)

    @property
    def prompt_tokens_per_s(self) -> float:
        return 1e3 * self.prompt_tokens / self.prefill_ms

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        decodes = [asdict(one) | {"floor_ratio": one.floor_ratio} for one in self.decodes]
        prefill = {"prefill_ms": self.prefill_ms, "prompt_tokens_per_s": self.prompt_tokens_per_s}
        return asdict(self) | prefill | {"decodes": decodes}


def decode_report(decode: SteadyDecode, read_bytes: float) -> DecodeReport:
    rate = decode.read_bytes_per_s
    periods_ms = sorted(1e3 * period_s for period_s in decode.periods_s)
    return DecodeReport(
        num_streams=decode.num_streams,
        context_tokens=round(decode.context_tokens),
        num_steps=len(periods_ms),
        itl_p50_ms=percentile(periods_ms, 50),
        itl_p90_ms=percentile(periods_ms, 90),
        tokens_per_s=1e3 * decode.num_streams * len(periods_ms) / sum(periods_ms),
        read_bytes=round(read_bytes),
        read_bytes_per_s=rate,
        floor_ms=None if rate is None else 1e3 * read_bytes / rate,
    )
