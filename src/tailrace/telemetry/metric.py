"""What a metric is: one row of a catalog."""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Kind", "Metric"]


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table. Counters are named here without the `_total` that the exposition adds."""

    name: str
    kind: Kind
    unit: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()  # upper bounds, ascending, without +Inf
    aliases: tuple[str, ...] = ()  # under these, the sum over service classes
